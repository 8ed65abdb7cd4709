"""A stand-in for the docker program: it answers with what was written down, and notes how it was called."""

import io
import json
import sys
import tarfile
from collections.abc import Mapping
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
saved = os.path.join(folder, "saved.tar")
if sys.argv[1] == "save" and os.path.exists(saved):
    with open(saved, "rb") as file:
        sys.stdout.buffer.write(file.read())
    sys.exit(0)
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


def tar(files: Mapping[str, bytes | None], mode: str = "w") -> bytes:
    """An archive of these files; None stands for a link to the file that comes first."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            if content is None:
                entry.type, entry.linkname = tarfile.SYMTYPE, next(iter(files))
            else:
                entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content or b""))
    return made.getvalue()


def saved(*layers: bytes) -> bytes:
    """What `docker save` of an engine of 20.10 writes for an image of these layers, base first."""
    names = [f"{at:064x}/layer.tar" for at in range(len(layers))]
    # In the order of digests, and what says the order comes last.
    files = dict(sorted(zip(names, layers, strict=True), reverse=True))
    return tar({**files, "manifest.json": json.dumps([{"Config": "c.json", "Layers": names}]).encode()})


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

    def saves(self, archive: bytes) -> None:
        """Hand out every image as this archive."""
        (self.folder / "saved.tar").write_bytes(archive)

    def calls(self) -> list[str]:
        """All calls so far, as one line each."""
        return [" ".join(json.loads(line)) for line in (self.folder / "calls").read_text().splitlines()]
