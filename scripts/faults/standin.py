"""The faults of tests/launch/faults, which need nodes that can be cut off: the StandIn in containers, every point."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from recipe.config import paths
from recipe.errors import HallmarkError
from scripts.faults.real import Row


def rows() -> Iterator[Row]:
    """Run them; each must hold. Errors: HallmarkError."""
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "report.xml"
        words = ["tests/launch/faults", "--every-fault", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words], cwd=paths.CHECKOUT, env=os.environ | {"CI": "1"}
        )
        if done.returncode:
            raise HallmarkError("the matrix with the StandIn does not hold, so nothing was written")
        for case in ElementTree.parse(report).iter("testcase"):
            told = {it.get("name"): it.get("value") or "" for it in case.iter("property")}
            if "told" in told:
                yield Row(told["fault"], told["happened"], float(told["told"]), "the operator was told", "the StandIn")
