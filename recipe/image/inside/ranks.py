"""Builds the model of a rank as this vLLM would, without weights, and asks its layers for their caches."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from . import device, serve

# Drafts that have no model of their own.
_WITHOUT_MODEL = ("ngram", "ngram_gpu", "suffix")


@dataclass
class Rank:
    """One rank's bytes: of all parameters and buffers, of the draft's part of them, of what every rank has alike
    (`replicated`); `specs` are the specs of its caches by layer, `layers` the classes of those layers, `drafts` the
    names of the draft's."""

    weights: int
    draft: int
    specs: dict[str, Any]
    layers: dict[str, str]
    drafts: set[str] = field(default_factory=set)

    def to_json(self) -> dict[str, Any]:
        return {"weights_bytes": self.weights, "draft_bytes": self.draft, "caches": list(self._caches())}

    def _caches(self) -> Iterator[dict[str, Any]]:
        """Kinds of cache: layers of one class whose specs are alike."""
        kinds: dict[tuple[Any, ...], int] = {}
        for name, spec in self.specs.items():
            ratio = getattr(spec, "tokens_per_state", None) or getattr(spec, "compress_ratio", None) or 1
            window = getattr(spec, "sliding_window", None)
            draft = name in self.drafts
            kind = (self.layers[name], draft, type(spec).__name__, spec.block_size, spec.page_size_bytes, window, ratio)
            kinds[kind] = kinds.get(kind, 0) + 1
        names = ("layer", "draft", "spec", "block_size", "page_bytes", "window", "tokens_per_slot")
        for kind, count in kinds.items():
            yield {"layers": count, **dict(zip(names, kind, strict=True))}


def engine_config(argv: list[str]) -> Any:
    """The configuration that `vllm serve ARGV` makes. Errors: what vLLM raises against it."""
    module: Any = serve.parser_module()
    parser_class: Any = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
    parsed = module.make_arg_parser(parser_class(prog="vllm serve")).parse_args(argv)
    if getattr(parsed, "model_tag", None):
        parsed.model = parsed.model_tag
    # It asks the tokenizer, which is not read, and holds nothing in memory.
    for name, value in {"reasoning_parser": "", "reasoning_parser_plugin": None, "reasoning_config": None}.items():
        setattr(parsed, name, value)
    registry: Any = importlib.import_module("vllm.model_executor.models.registry")
    # Models are looked at in a process of their own, which would not know of the stand-ins.
    registry._run_in_subprocess = lambda look: look()
    _with_triton(importlib.import_module("vllm.config.vllm"))
    engine_args: Any = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs.from_cli_args(parsed)
    engine_args.skip_tokenizer_init = True
    return engine_args.create_engine_config()


def count(config: Any) -> int:
    """Ranks of one engine; each data parallel copy has an engine of its own."""
    parallel = config.parallel_config
    return int(parallel.tensor_parallel_size * parallel.pipeline_parallel_size)


def build(config: Any, rank: int) -> Rank:
    """The rank's model and draft. Errors: NotImplementedError for a draft that this cannot build."""
    from vllm.config import set_current_vllm_config  # type: ignore[import-not-found, unused-ignore]

    _groups(config, rank)
    config.parallel_config.rank = rank
    context = config.compilation_config.static_forward_context
    context.clear()
    with set_current_vllm_config(config):
        model = _model(config)
        trunk = set(context)
        draft = _draft(config, model)
        specs = _specs(config)
    held = {id(tensor): _bytes(tensor) for tensor in _tensors(model)}
    own = {id(tensor): _bytes(tensor) for tensor in _tensors(draft) if id(tensor) not in held} if draft else {}
    layers = {name: type(context[name]).__name__ for name in specs}
    total = sum(held.values()) + sum(own.values())
    return Rank(total, sum(own.values()), specs, layers, {name for name in specs if name not in trunk})


def _model(config: Any, model_config: Any = None, **_: Any) -> Any:
    """In place of vLLM's get_model: its own initialize_model, on no device."""
    loader: Any = importlib.import_module("vllm.model_executor.model_loader.utils")
    wanted = model_config or config.model_config
    with device.nowhere(wanted.dtype):
        return loader.initialize_model(vllm_config=config, model_config=wanted)


def _draft(config: Any, model: Any) -> Any:
    speculative = config.speculative_config
    if speculative is None or speculative.method in _WITHOUT_MODEL:
        return None
    loaders: dict[str, tuple[str, str]] = {
        "dspark": ("vllm.v1.worker.gpu.spec_decode.dspark.utils", "load_dspark_model"),
    }
    if speculative.method not in loaders:
        raise NotImplementedError(f"drafts of the method {speculative.method} cannot be built without a device")
    place, name = loaders[speculative.method]
    module: Any = importlib.import_module(place)
    package: Any = importlib.import_module("vllm.model_executor.model_loader")

    def get_model(*, vllm_config: Any, model_config: Any = None, **rest: Any) -> Any:
        return _model(vllm_config, model_config, **rest)

    with (
        mock.patch.object(package, "get_model", get_model),
        mock.patch.object(module, "get_model", get_model, create=True),
    ):
        load: Callable[..., Any] = getattr(module, name)
        return load(model, config)


def _specs(config: Any) -> dict[str, Any]:
    """What the runner would ask of each layer with a cache, by the runner's own code."""
    module: Any = importlib.import_module("vllm.v1.worker.gpu.attn_utils")
    found: dict[str, Any] = module.get_kv_cache_spec(config)
    return found


def _tensors(model: Any) -> Iterator[Any]:
    yield from model.parameters()
    yield from model.buffers()


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _groups(config: Any, rank: int) -> None:
    """Tell vLLM that this process is a rank among others, with its own coordinators, which never communicate."""
    state: Any = importlib.import_module("vllm.distributed.parallel_state")
    tensor, total = config.parallel_config.tensor_parallel_size, count(config)
    first = rank // tensor * tensor
    peers = {
        "_WORLD": list(range(total)),
        "_TP": list(range(first, first + tensor)),
        "_EP": list(range(first, first + tensor)),
        "_PP": list(range(rank % tensor, total, tensor)),
    }
    alone = ("_DP", "_DCP", "_PCP", "_EPLB", "_ETP")
    for name, members in {**peers, **{name: [rank] for name in alone}}.items():
        group = state.GroupCoordinator.__new__(state.GroupCoordinator)
        handle = mock.MagicMock()
        handle.size.return_value, handle.rank.return_value = len(members), members.index(rank)
        facts = {
            "unique_name": name,
            "rank": rank,
            "ranks": members,
            "world_size": len(members),
            "local_rank": rank,
            "rank_in_group": members.index(rank),
            "cpu_group": handle,
            "device_group": handle,
            "device_communicator": None,
            "use_device_communicator": False,
            "mq_broadcaster": None,
        }
        for key, value in facts.items():
            setattr(group, key, value)
        setattr(state, name, group)


def _with_triton(module: Any) -> None:
    """Where there is no Triton there is no device either; the configuration shall be the one of a machine with it."""
    platforms: Any = sys.modules["vllm.platforms"]
    if hasattr(module, "HAS_TRITON") and platforms.current_platform.device_type == "cuda":
        module.HAS_TRITON = True
