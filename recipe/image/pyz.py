"""Packs the applier into one file, `applier.pyz`, that any Python from 3.10 on runs inside an image."""

import io
import zipfile
from pathlib import Path

from recipe import applier

NAME = "applier.pyz"
_MAIN = b"from applier.cli import main\n\nraise SystemExit(main())\n"
# The oldest time that a zip file can hold: the same sources give the same bytes, whenever they are packed.
_TIME = (1980, 1, 1, 0, 0, 0)


def pack() -> bytes:
    """The archive's bytes; they depend on the applier's sources only."""
    root = Path(applier.__file__).parent
    files = {f"applier/{path.relative_to(root).as_posix()}": path.read_bytes() for path in root.rglob("*.py")}
    files["__main__.py"] = _MAIN
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # Otherwise the packing system's own number is written.
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data, compresslevel=9)
    return out.getvalue()
