"""Whether the image still has the versions that its base shipped, and those that the vLLM release names."""

from __future__ import annotations

import re
from email.parser import HeaderParser
from pathlib import Path

from .request import Request
from .result import Result, judged, skipped

CHECK = "versions"
# What vLLM's compiled code was built against.
_KEPT = re.compile(r"(torch|torchvision|torchaudio|triton|flashinfer-.*|nvidia-.*|cuda-.*)")
_CUDA = re.compile(r"^cuda(?:: [^=]*)? = '([^']*)'", re.MULTILINE)


def check(request: Request) -> Result:
    """Compare distribution by distribution, and the CUDA version that torch says it was built with."""
    there, before = kept(request.site), kept(request.base)
    if not before:
        return skipped(CHECK, "the base image has neither torch nor FlashInfer")
    hint = "pin the extra packages to ones that leave it alone"
    problems = [
        f"{name}: {there.get(name, 'gone')}, the base has {version} — {hint}"
        for name, version in before.items()
        if there.get(name) != version
    ]
    problems += [
        f"{name}: {there[name]} is new — {hint}" for name in there if name not in before and name not in request.extras
    ]
    problems += [
        f"{name}: {there[name]}, vLLM needs {wanted} — use the base image of this release"
        for name, wanted in request.pins.items()
        if name in there and there[name].partition("+")[0] != wanted
    ]
    cuda, cuda_before = _cuda(request.site), _cuda(request.base)
    if cuda != cuda_before:
        problems.append(f"torch is built for CUDA {cuda}, in the base for {cuda_before} — {hint}")
    shown = [f"{name} {there[name]}" for name in there if name == "torch" or name.startswith("flashinfer-")]
    return judged(CHECK, ", ".join([*shown, *([f"CUDA {cuda}"] if cuda else [])]), problems)


def kept(site: Path) -> dict[str, str]:
    """The versions of the distributions that must stay as the base has them."""
    found = {}
    for folder in sorted(site.glob("*.dist-info")):
        metadata = HeaderParser().parsestr((folder / "METADATA").read_text(encoding="utf-8", errors="replace"))
        name = re.sub(r"[-_.]+", "-", metadata["Name"]).lower()
        if _KEPT.fullmatch(name):
            found[name] = str(metadata["Version"])
    return found


def _cuda(site: Path) -> str | None:
    path = site / "torch" / "version.py"
    match = _CUDA.search(path.read_text(encoding="utf-8")) if path.is_file() else None
    return match[1] if match else None
