"""Entry point of the `hallmark` command: makes sure that `launch` and `recipe` are this checkout's own.

Other software installs packages of these names too (ROS 2 has a `launch`), and PYTHONPATH comes before an
editable install, so the checkout is put first and what was imported is looked at.
"""

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def shadowed(root: Path) -> str | None:
    """Say which package comes from outside `root`, and from where; None when both are its own."""
    for name in ("recipe", "launch"):
        origin = getattr(importlib.import_module(name), "__file__", None)
        if origin is None or Path(origin).resolve().parent != root / name:
            return (
                f"hallmark: the package {name!r} comes from {origin or 'another folder'} instead of {root / name}"
                " — take that folder out of PYTHONPATH"
            )
    return None


def main() -> None:
    """Run the command line of this checkout; exit 1 when another package of the same name was imported."""
    sys.path.insert(0, str(ROOT))
    problem = shadowed(ROOT)
    if problem:
        print(problem, file=sys.stderr)
        raise SystemExit(1)
    importlib.import_module("launch.cli.main").main()
