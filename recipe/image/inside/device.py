"""Stands in for the device while vLLM's models are built without weights: every tensor is on torch's meta device."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from . import platform

# Of one that is not known; only whether it is small decides anything, which none of these devices is.
_MEMORY = 128 * 2**30


def stand_in(device: str, capability: list[int] | None, gpus: int, memory: int | None) -> None:
    """Tell vLLM that it is on a device of this kind. Call before any module of vLLM is imported."""
    if device != "cuda" or capability is None:
        return
    import torch  # type: ignore[import-not-found, unused-ignore]

    platform.driver(Path(torch.__file__).parents[1])
    # Handles of a device that is not there; nothing runs on them.
    torch.cuda.Stream = type("Stream", (MagicMock,), {})
    torch.cuda.Event = type("Event", (MagicMock,), {})
    torch.cuda.current_device = lambda: 0
    major, minor = capability
    properties = SimpleNamespace(
        name="absent", major=major, minor=minor, total_memory=memory or _MEMORY, multi_processor_count=132
    )
    torch.cuda.get_device_properties = lambda *_: properties
    platform.become((major, minor), gpus, memory or _MEMORY)


@contextmanager
def nowhere(dtype: Any) -> Iterator[None]:
    """Tensors made in here have shape and type, and no memory, wherever the code wants them."""
    import torch
    from torch.overrides import TorchFunctionMode  # type: ignore[import-not-found, unused-ignore]

    moves = (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu)

    class Nowhere(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = dict(kwargs or {})
            if func in moves:
                kinds = [it for it in (*args[1:], *named.values()) if isinstance(it, torch.dtype)]
                return func(args[0], kinds[0]) if kinds else args[0]
            if named.get("device") is not None:
                named["device"] = "meta"
            return func(*args, **named)

    utils: Any = importlib.import_module("vllm.utils.torch_utils")
    with utils.set_default_torch_dtype(dtype), torch.device("meta"), Nowhere():
        yield
