"""Rows of tests that play faults: they write them beside their own results."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from recipe.config import paths
from recipe.errors import HallmarkError
from scripts.faults.plays import Row


def rows(file: str, which: str = "") -> list[Row]:
    """Run a file of tests with all of its faults, or `which` of them as pytest's -k has it; each must hold.

    Errors: HallmarkError.
    """
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "report.xml"
        words = [file, "--every-fault", "-k", which, "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        argv = [sys.executable, "-m", "pytest", *words]
        done = subprocess.run(argv, cwd=paths.CHECKOUT, env=os.environ | {"CI": "1"}, check=False)
        if done.returncode:
            raise HallmarkError(f"{file} does not hold, so nothing was written")
        found = [it for it in ElementTree.parse(report).iter("property") if it.get("name") == "fault"]
        return [Row(**json.loads(it.get("value") or "")) for it in found]
