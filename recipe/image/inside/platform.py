"""vLLM without the device that it is for: a stand-in platform, so that its modules import on a build machine."""

from __future__ import annotations

import importlib.util
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
    import vllm.platforms as platforms  # type: ignore[import-not-found, unused-ignore]
    from vllm.platforms.interface import (  # type: ignore[import-not-found, unused-ignore]
        DeviceCapability,
        Platform,
        PlatformEnum,
    )

    capability = DeviceCapability(*request.capability)

    class Absent(Platform):  # type: ignore[misc, unused-ignore]
        """A CUDA device of the wanted kind, of which only the kind is known."""

        _enum = PlatformEnum.CUDA
        device_name = device_type = "cuda"
        dispatch_key = "CUDA"

        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return capability

    platforms._current_platform = Absent()
