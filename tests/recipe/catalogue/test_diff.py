"""The unified diff of a plan, taken by git."""

import subprocess
from pathlib import Path

import pytest

from recipe.applier.patchset import PatchSet
from recipe.applier.states import Change, Plan
from recipe.catalogue.diff import unified

TALL = "".join(f"line {number}\n" for number in range(40)).encode()
CHANGES = {
    "one line": (TALL, TALL.replace(b"line 20\n", b"LINE 20\n")),
    "far apart": (TALL, TALL.replace(b"line 1\n", b"").replace(b"line 38\n", b"line 38\nmore\n")),
    "crlf": (TALL.replace(b"\n", b"\r\n"), TALL.replace(b"\n", b"\r\n").replace(b"line 9\r", b"LINE 9\r")),
    "no final newline": (TALL + b"end", TALL + b"END"),
    "final newline added": (TALL + b"end", TALL + b"end\n"),
    "final newline taken away": (TALL + b"end\n", TALL + b"end"),
    "odd line breaks": ("a\x0cb\x85c\u2028d\ne\n".encode(), "a\x0cb\x85c\u2028D\ne\n".encode()),
    "new file": (None, b"one\ntwo\n"),
    "new file without a final newline": (None, b"one\ntwo"),
    "new empty file": (None, b""),
    "file taken away": (b"one\ntwo\n", None),
    "file emptied": (b"one\n", b""),
    "empty file filled": (b"", b"one\n"),
}


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_git_makes_the_planned_bytes_of_it(before: bytes | None, after: bytes | None, tmp_path: Path) -> None:
    change = Change("vllm/a b.py", before, before, after, None)
    patch = tmp_path / "changes.diff"
    text = unified(Plan(PatchSet({"patches": []}), [], {}, [change]))
    patch.write_text(text, encoding="utf-8", newline="")
    repository = tmp_path / "repository"
    file = repository / change.file
    file.parent.mkdir(parents=True)
    if before is not None:
        file.write_bytes(before)
    git = ["git", "-c", "core.autocrlf=false", "-C", str(repository)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "apply", "--check", str(patch)], check=True)
    subprocess.run([*git, "apply", "--whitespace=nowarn", str(patch)], check=True)
    assert (file.read_bytes() if file.exists() else None) == after
