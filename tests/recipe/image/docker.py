"""A stand-in for the docker program: it answers with what was written down, and notes how it was called."""

import json
import sys
from pathlib import Path
from typing import Any

# What a build that goes well says that it has built.
BUILT = "sha256:" + "a" * 64
# What the checks inside say then.
CHECKED: dict[str, Any] = {
    "checks.json": [
        {"check": "patches", "verdict": "pass", "detail": "2 applied", "problems": []},
        {"check": "extensions", "verdict": "skipped", "detail": "no reason", "problems": []},
    ],
    "packages.json": [{"name": "vllm", "version": "0.32.0+cpu"}],
    "patches.json": {"patches": {"headless-exit-code": {"state": "applied"}}},
}
_SCRIPT = """#!{python} -S
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(folder, "calls"), "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + chr(10))
with open(os.path.join(folder, "answers.json")) as file:
    answers = json.load(file)
given = " ".join(sys.argv[1:])
for start, status, out, err in answers:
    if given.startswith(start):
        sys.stdout.write(out)
        sys.stderr.write(err)
        if "--iidfile" in sys.argv and not status:
            with open(sys.argv[sys.argv.index("--iidfile") + 1], "w") as file:
                file.write({built!r})
        if "--output" in sys.argv and not status:
            out = sys.argv[sys.argv.index("--output") + 1].split("dest=")[1]
            for name, document in {checked!r}.items():
                with open(os.path.join(out, name), "w") as file:
                    json.dump(document, file)
        sys.exit(status)
sys.stderr.write("the stand-in knows no answer to: " + given)
sys.exit(99)
"""


class StandInDocker:
    """A folder with a program `docker`; the first answer whose words begin the arguments is given."""

    def __init__(self, folder: Path, version: str = "20.10.24+dfsg1") -> None:
        self.folder = folder
        self.answers: list[tuple[str, int, str, str]] = []
        folder.mkdir(parents=True)
        self.program = folder / "docker"
        self.program.write_text(_SCRIPT.format(python=sys.executable, built=BUILT, checked=CHECKED))
        self.program.chmod(0o755)
        self.version = version
        self.forget()

    def forget(self) -> None:
        """Know no answer any more but the program's version, and forget the calls."""
        self.answers.clear()
        (self.folder / "calls").unlink(missing_ok=True)
        self.answer("--version", out=f"Docker version {self.version}, build 297e128\n")

    def answer(self, start: str, status: int = 0, *, out: str = "", err: str = "") -> None:
        """Answer so to a call whose arguments begin like this."""
        self.answers.append((start, status, out, err))
        (self.folder / "answers.json").write_text(json.dumps(self.answers))

    def calls(self) -> list[str]:
        """All calls so far, as one line each."""
        return [" ".join(json.loads(line)) for line in (self.folder / "calls").read_text().splitlines()]
