"""Reads what ranks write, as they write it, until somebody has seen enough."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from launch.nodes import stream
from launch.plan.place import Place
from recipe.errors import HallmarkError

# The command ends when this program closes the pipe to it, or is gone.
_FOLLOWER = 'exec 3<&0; "$@" 2>&1 </dev/null 3<&- & p=$!; { cat <&3; kill $p; } >/dev/null 2>&1 & exec 3<&-; wait $p'


def follow(sources: Mapping[str, tuple[Place, tuple[str, ...]]], hear: Callable[[str, str], None]) -> None:
    """Hear (name, line) of all commands until they end; a KeyboardInterrupt ends them.

    Errors: what the first of them that failed said, after all others have ended; what `hear` raises, at once.
    """
    failed: list[HallmarkError] = []
    unheard: list[OSError] = []
    ends: list[Callable[[], None]] = []
    over = threading.Event()
    one_at_a_time = threading.Lock()

    def read(name: str, place: Place, argv: tuple[str, ...]) -> None:
        try:
            with stream.program(place, ("sh", "-c", _FOLLOWER, "sh", *argv), {}) as process:
                assert process.stdin is not None and process.stdout is not None
                ends.append(process.stdin.close)
                if over.is_set():
                    return
                for line in process.stdout:
                    with one_at_a_time:
                        hear(name, line.rstrip("\n"))
        except HallmarkError as error:
            failed.append(error)
        except OSError as error:
            # Nobody reads what is told, or it cannot be written.
            unheard.append(error)

    readers = [threading.Thread(target=read, args=(name, *source), daemon=True) for name, source in sources.items()]
    for reader in readers:
        reader.start()
    with suppress(KeyboardInterrupt):
        # In parts, because a Ctrl-C is not heard while a thread is waited for.
        while not unheard and any(reader.is_alive() for reader in readers):
            for reader in readers:
                reader.join(0.1)
    over.set()
    for end in ends:
        with suppress(OSError):
            end()
    for reader in readers:
        reader.join(5)
    for error in (*unheard, *failed):
        raise error
