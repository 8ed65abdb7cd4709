"""Lets the Python files of a CUDA release be imported without its compiled parts, then answers requests of sizes.

A request may have `without`: expressions; the answer then has the tokens of the pool of a group whose caches with such
names (of layers) were forgotten, for each.

`python uncompiled.py CHECKOUT TREE REQUEST…`, run by the interpreter that has vLLM's dependencies for the CPU.
Stand-ins here: the extension modules, which register kernels; what asks whether a kernel exists (it does); the
decorators of Triton.
Sizes, specs, groups and pools are the release's own code.
"""

import base64
import importlib.abc
import importlib.machinery
import json
import os
import re
import sys
import types
from typing import Any
from unittest import mock
from unittest.mock import MagicMock

_EXTENSION = re.compile(r"vllm(\.\w+)*\._\w*C(_stable_libtorch)?|gguf(\.\w+)*")


class Extensions(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty modules for extensions that are not here."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.machinery.ModuleSpec(name, self) if _EXTENSION.fullmatch(name) else None

    def create_module(self, spec: Any) -> Any:
        return MagicMock(name=spec.name) if spec.name.startswith("gguf") else types.ModuleType(spec.name)

    def exec_module(self, module: Any) -> None: ...


def kernels() -> None:
    """Every kernel that a layer looks up while it is made is there; whether one is supported is answered with yes."""
    import torch

    namespace: Any = type(torch.ops._C)
    look_up = namespace.__getattr__

    def found(self: Any, name: str) -> Any:
        if "_supports_" in name or name.startswith("cutlass_group_gemm_supported"):
            return lambda *_, **__: True
        making = sys.modules.get("recipe.image.inside.ranks") and torch.get_default_device().type == "meta"
        if making and self.name.startswith("_") and not name.startswith("__"):
            return MagicMock(name=name)
        return look_up(self, name)

    namespace.__getattr__ = found


def libraries() -> None:
    """DeepGEMM and FlashInfer's kernels exist; both are only asked for by name."""
    from vllm.utils import import_utils

    import_utils.has_deep_gemm = lambda: True
    from vllm.utils import flashinfer

    for name in dir(flashinfer):
        if name.startswith("has_flashinfer_sparse_mla"):
            setattr(flashinfer, name, lambda *_, **__: True)
    # Kernels that are compiled when they are first called.
    sys.modules["vllm.tilelang_utils"] = MagicMock()
    sys.modules["vllm.models.deepseek_v4.nvidia.ops.sparse_attn_compress_cutedsl"] = MagicMock()
    # Passes of the compiler match kernels when they are imported.
    sys.modules["vllm.compilation.passes.pass_manager"] = MagicMock()
    from vllm.triton_utils import triton

    if not isinstance(triton.Config, type):
        triton.Config = type("Config", (types.SimpleNamespace,), {"__init__": _config})


def _config(self: Any, kwargs: Any = None, num_warps: int = 4, num_stages: int = 3, **_: Any) -> None:
    self.kwargs, self.num_warps, self.num_stages = kwargs, num_warps, num_stages


def without(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request that has `without`; the pools are counted by the same code."""
    from recipe.image.inside import pool, sizes

    whole, forgotten = pool.size, list[int]()

    def size(config: Any, specs: list[dict[str, Any]], available: int) -> pool.Pool:
        for expression in request.get("without", ()):
            rest = [{n: spec for n, spec in one.items() if not re.search(expression, n)} for one in specs]
            assert len(rest[0]) < len(specs[0]), f"no cache is called {expression}"
            forgotten.append(whole(config, rest, available).tokens)
        return whole(config, specs, available)

    with mock.patch.object(pool, "size", size):
        return {**sizes.answer(request), "without": forgotten}


def main() -> None:
    checkout, tree, *requests = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    # vLLM logs to standard output.
    os.dup2(2, 1)
    sys.path[0:1] = [tree]
    sys.path.append(checkout)
    sys.meta_path.append(Extensions())
    kernels()
    from recipe.image.inside import device

    become, known = device.stand_in, set[Any]()

    def with_libraries(*words: Any) -> None:
        # All requests are about one device.
        if not known:
            become(*words)
            libraries()
        known.add(words[0])

    with mock.patch.object(device, "stand_in", with_libraries):
        for request in requests:
            print(json.dumps(without(json.loads(base64.b64decode(request)))), file=out, flush=True)


if __name__ == "__main__":
    main()
