"""The files that a build added to its base."""

import os
from pathlib import Path

from recipe.image.inside import added


def write(path: Path, text: str, seconds: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (seconds, seconds))
    return path


def test_new_changed_and_linked_files_are_copied_and_nothing_else(tmp_path: Path) -> None:
    root, base, out = tmp_path / "root", tmp_path / "base", tmp_path / "root/out"
    for side in (root, base):
        write(side / "usr/same.py", "same")
        write(side / "usr/newer.py", "text")
        write(side / "usr/longer.py", "text")
    write(root / "usr/newer.py", "text", 2)
    write(root / "usr/longer.py", "text and more")
    write(root / "opt/new/file", "new")
    (root / "opt/link").symlink_to("/run/secrets/token")
    write(out / "checks.json", "{}")
    added.copy(root, base, out / "files", (out,))
    found = {str(it.relative_to(out / "files")): it.read_text() for it in (out / "files").rglob("*") if it.is_file()}
    assert found == {
        "usr/newer.py": "text",
        "usr/longer.py": "text and more",
        "opt/new/file": "new",
        "opt/link": "/run/secrets/token",
    }
