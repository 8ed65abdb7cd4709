"""Packs what runs inside an image into one file each, which any Python from 3.10 on runs without installing."""

import io
import zipfile
from pathlib import Path
from types import ModuleType

from recipe import applier
from recipe.image import inside

NAME = "applier.pyz"
CHECKS = "checks.pyz"
ABOUT = "about.pyz"
SIZES = "sizes.pyz"
# Old Pythons must understand the line that refuses them.
_MAIN = """\
import sys

if sys.version_info < (3, 10):
    sys.exit("{name}: this is Python %d.%d - run it with Python 3.10 or newer" % sys.version_info[:2])

from {name}.{module} import main

raise SystemExit(main())
"""
# The oldest time that a zip file can hold: the same sources give the same bytes, whenever they are packed.
_TIME = (1980, 1, 1, 0, 0, 0)


def pack() -> bytes:
    """The applier's archive; its bytes depend on the applier's sources only."""
    return _pack(applier, "applier", "cli")


def pack_checks() -> bytes:
    """The archive of the checks; its bytes depend on their sources only."""
    return _pack(inside, "checks", "main")


def pack_about() -> bytes:
    """The archive that says what is installed; its bytes depend on its sources only."""
    return _pack(inside, "about", "about")


def pack_sizes() -> bytes:
    """The archive that tells what a rank would hold in memory: the checks' package, begun elsewhere."""
    return _pack(inside, "sizes", "sizes")


def _pack(package: ModuleType, name: str, module: str) -> bytes:
    root = Path(str(package.__file__)).parent
    files = {f"{name}/{path.relative_to(root).as_posix()}": path.read_bytes() for path in root.rglob("*.py")}
    files["__main__.py"] = _MAIN.format(name=name, module=module).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for file, data in sorted(files.items()):
            entry = zipfile.ZipInfo(file, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # Otherwise the packing system's own number is written.
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data, compresslevel=9)
    return out.getvalue()
