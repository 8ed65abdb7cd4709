"""Whether vLLM's compiled extensions hold code for a compute capability, read from the files themselves.

nvcc puts its results into the section `.nv_fatbin` of a library: containers, each with a header and entries that name
a kind (machine code or PTX) and the architecture that it is for.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .request import Request
from .result import Result, judged, passed, skipped

CHECK = "extensions"
# Every model runs through these; the others belong to single features and kinds of hardware.
_NEEDED = ("vllm/_C", "vllm/_moe_C")
_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin")
_MAGIC = 0xBA55ED50
_CONTAINER, _ENTRY = struct.Struct("<IHHQ"), struct.Struct("<HHIQIIHHIIIQ")
_PTX = 1
# What is compiled for `sm_90a` runs there only, for `sm_120f` within its family.
_EXACT, _FAMILY = 0x100000, 0x200000


class Code(NamedTuple):
    """One entry: `architecture` as 120 for 12.0."""

    ptx: bool
    architecture: int
    flags: int

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Machine code runs on its own major version from its minor on; PTX is compiled for anything newer."""
        wanted = capability[0] * 10 + capability[1]
        if self.flags & _EXACT:
            return self.architecture == wanted
        if self.ptx and not self.flags & _FAMILY:
            return self.architecture <= wanted
        return self.architecture <= wanted and self.architecture // 10 == capability[0]


def check(request: Request) -> Result:
    if request.capability is None:
        return passed(CHECK, f"not needed on {request.device}")
    files = sorted((request.site / "vllm").rglob("*.so"))
    codes = {path.relative_to(request.site).as_posix(): set(codes_of(path)) for path in files}
    needed = {name: found for name, found in codes.items() if name.startswith(_NEEDED)}
    if not needed:
        return skipped(CHECK, "this image has no compiled extensions of vLLM")
    shown = ".".join(map(str, request.capability))
    without = [name for name, found in codes.items() if found and not any(c.runs_on(request.capability) for c in found)]
    problems = [
        f"{name}: has code for {_listed(found)} only, the hardware is {shown} — use a base image built for it"
        for name, found in needed.items()
        if name in without or not found
    ]
    if not problems and without:
        return passed(CHECK, f"code for {shown}, but not in {', '.join(Path(name).name for name in without)}")
    return judged(CHECK, f"code for {shown}", problems)


def codes_of(path: Path) -> list[Code]:
    """Every entry of a library. Errors: ValueError for what is no 64-bit library of a little-endian machine."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return list(_codes(data))


def _codes(data: mmap.mmap) -> Iterator[Code]:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit library")
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", data, start + number * size) for number in range(count)]
    for section in sections:
        at = sections[names][4] + section[0]
        if data[at : data.find(b"\0", at)] in _SECTIONS:
            yield from _containers(data, section[4], section[4] + section[5])


def _containers(data: mmap.mmap, at: int, end: int) -> Iterator[Code]:
    while at + _CONTAINER.size <= end:
        magic, _, header, size = _CONTAINER.unpack_from(data, at)
        if magic != _MAGIC:
            at += 8  # Containers are aligned, with zeros between them.
            continue
        entry, at = at + header, at + max(header, _CONTAINER.size) + size
        while entry + _ENTRY.size <= at:
            kind, _, header, size, *_, architecture, _, _, flags = _ENTRY.unpack_from(data, entry)
            if header < _ENTRY.size:
                raise ValueError("an entry of device code that cannot be read")
            yield Code(kind == _PTX, architecture, flags)
            entry += header + size


def _listed(found: set[Code]) -> str:
    return (
        ", ".join(f"{number // 10}.{number % 10}" for number in sorted({code.architecture for code in found}))
        or "no GPU"
    )
