"""vLLM without the device that it is for: a stand-in platform, so that its modules import on a build machine."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from pathlib import Path
from typing import Any

from .request import Request


def missing() -> str | None:
    """Why vLLM cannot be imported here at all; None when its first dependency is there."""
    return None if importlib.util.find_spec("torch") else "this image has no torch, so vLLM cannot be imported"


def stand_in(request: Request) -> None:
    """Tell vLLM which platform it is on, where it would look for a device that a build machine does not have.

    Call before any other module of vLLM is imported.
    """
    if request.device != "cuda" or request.capability is None:
        return
    driver(request.site)
    become(request.capability, request.gpus)


def become(capability: tuple[int, int], gpus: int, memory: int = 0) -> None:
    """Make vLLM's current platform CUDA devices of this kind; `memory`: bytes of one."""
    import vllm.platforms as platforms  # type: ignore[import-not-found, unused-ignore]
    from vllm.platforms.interface import DeviceCapability  # type: ignore[import-not-found, unused-ignore]

    known = DeviceCapability(*capability)

    class Absent(_kind()):  # type: ignore[misc, unused-ignore]
        """CUDA devices of the wanted kind, of which only kind, number and memory are known."""

        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return known

        @classmethod
        def device_count(cls) -> int:
            return gpus

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return "absent"

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return memory

        @classmethod
        def is_fully_connected(cls, device_ids: list[int]) -> bool:
            return True

    platforms._current_platform = Absent()


def _kind() -> Any:
    """vLLM's own CUDA platform, which loads its compiled code; a bare one where that cannot be loaded."""
    from vllm.platforms.interface import Platform, PlatformEnum  # type: ignore[import-not-found, unused-ignore]

    try:
        return importlib.import_module("vllm.platforms.cuda").CudaPlatformBase
    except Exception:
        names = {"_enum": PlatformEnum.CUDA, "device_name": "cuda", "device_type": "cuda", "dispatch_key": "CUDA"}
        return type("Bare", (Platform,), names)


def driver(site: Path) -> None:
    """Load a library of the driver that images carry for building: without one, compiled code cannot be loaded."""
    cuda = Path("/usr/local")
    found = [*cuda.glob("cuda*/compat/libcuda.so.1"), *cuda.glob("cuda*/lib64/stubs/libcuda.so")]
    for path in ["libcuda.so.1", *map(str, sorted(found)), *map(str, site.glob("nvidia/*/lib/stubs/libcuda.so"))]:
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        return
