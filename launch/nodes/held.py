"""Background programs for the time of a `with` block, which end with this program however that ends."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# The pipe to it closes when this program is gone, killed or not; closing its own standard error lets the reader of
# the program's see that it ended.
_KEEPER = '"$@" & p=$!; exec 2>&-; cat >/dev/null; kill $p; wait $p'


@contextmanager
def held(argv: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    """Run a program in the background; what it writes to standard error can be read from the process that is given."""
    with subprocess.Popen(
        ["sh", "-c", _KEEPER, "sh", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        # A Ctrl-C is for this program, which ends the other in order.
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait()
