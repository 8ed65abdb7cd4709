"""Images of the StandIn: a Debian with Python, and a few kilobytes that stand where vLLM would."""

import platform
import tarfile

from scripts.bases.archive import Base, add, layer
from scripts.bases.debian import debian
from tests.standin.venv import PROGRAM
from tests.standin.world import BEHAVIOURS, MACHINES

_SITE = "usr/local/lib/python3/dist-packages"
_SCRIPT = (
    f"#!/usr/bin/python3 -S\nimport sys\nsys.path.append('/{_SITE}')\nfrom vllm.main import main\n\nmain()\n".encode()
)


def standin(*behaviours: str) -> Base:
    """The StandIn that does as these of BEHAVIOURS say.

    Errors: Refused where no Debian can be made.
    """
    files = {f"{_SITE}/vllm/{path.name}": path.read_bytes() for path in sorted(PROGRAM.glob("vllm/*.py"))}
    for name in behaviours:
        old, new = BEHAVIOURS[name]
        file = f"{_SITE}/vllm/behaviour.py"
        assert old.encode() in files[file]
        files[file] = files[file].replace(old.encode(), new.encode())

    def write(archive: tarfile.TarFile) -> None:
        for name, data in files.items():
            add(archive, name, data)
        add(archive, "usr/local/bin/vllm", _SCRIPT, mode=0o755)

    architecture = MACHINES[platform.machine()]
    name = f"standin-{'-'.join(behaviours) or 'plain'}"
    return Base(f"localhost/{name}:1", architecture, (debian(architecture), layer(name, repr(files), write)))
