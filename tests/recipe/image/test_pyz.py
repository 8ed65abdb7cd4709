"""The applier in one file."""

import json
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

from recipe.image import pyz
from tests.standin import venv


def test_it_is_the_same_bytes_every_time_and_small() -> None:
    packed = pyz.pack()
    assert packed == pyz.pack()
    assert len(packed) < 100_000
    assert {entry.date_time[0] for entry in zipfile.ZipFile(BytesIO(packed)).infolist()} == {1980}


def test_it_runs_with_a_bare_python_that_knows_nothing_of_this_checkout(tmp_path: Path) -> None:
    file = tmp_path / pyz.NAME
    file.write_bytes(pyz.pack())
    site = venv.make(tmp_path / "venv")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(file), "verify", "--target", str(site)],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert json.loads(done.stdout)["reasons"][0].endswith("the tree is not patched")
