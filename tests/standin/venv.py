"""Makes the virtual environment of the StandIn: a folder like any that vLLM is installed in, of a few kilobytes."""

import base64
import hashlib
import platform
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "program"
VERSION = "0.32.0"


def make(folder: Path) -> Path:
    """Write it; its interpreter is this one. Returns its site-packages."""
    site = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    files = {f"vllm/{path.name}": path.read_bytes() for path in sorted((PROGRAM / "vllm").glob("*.py"))}
    info = f"vllm-{VERSION}.dist-info"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}\n".encode()
    rows = "".join(f"{file},{_hash(data)},{len(data)}\n" for file, data in files.items())
    files[f"{info}/RECORD"] = f"../../../bin/vllm,,\n{rows}{info}/RECORD,,\n".encode()
    for file, data in files.items():
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_bytes(data)
    (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).parent}\nversion = {platform.python_version()}\n")
    script = folder / "bin" / "vllm"
    script.parent.mkdir()
    # Without `site`: the standard library is all that it needs, and each start is tens of milliseconds shorter.
    script.write_text(
        f"#!{sys.executable} -S\nimport sys\nsys.path.append({str(site)!r})\nfrom vllm.main import main\n\nmain()\n"
    )
    script.chmod(0o755)
    return site


def _hash(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
