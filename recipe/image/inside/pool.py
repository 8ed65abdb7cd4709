"""How many tokens the cache of a group holds: vLLM's own engine core, asked with a worker that is not there."""

from __future__ import annotations

import copy
import importlib
import re
from dataclasses import dataclass
from typing import Any
from unittest import mock

_SAID = re.compile(r"KV cache size: ([0-9,]+) tokens")


@dataclass(frozen=True)
class Pool:
    """`available`: bytes that were there for the cache of one rank; `tokens`: as vLLM logs them, at requests of full
    length; `groups`: kinds of page tables; `problem`: why it would refuse to start."""

    available: int
    tokens: int
    blocks: int
    groups: int
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "bytes_per_token": self.available / self.tokens if self.tokens else None}


class _Planned(Exception):
    """The engine core has decided; what follows needs the device."""


class _Recorder:
    """In place of a module's logger: what it is told, formatted."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def __getattr__(self, name: str) -> Any:
        def record(message: object = "", *words: object, **_: Any) -> None:
            self.lines.append(str(message) % words if words else str(message))

        return record


def size(config: Any, specs: list[dict[str, Any]], available: int) -> Pool:
    """The pool of ranks with these specs, of which each has `available` bytes."""
    core: Any = importlib.import_module("vllm.v1.engine.core")
    lines: list[str] = []
    configs: list[Any] = []

    def initialize_from_config(found: list[Any], *_: Any, **__: Any) -> None:
        configs.extend(found)
        raise _Planned

    executor = mock.MagicMock()
    # Some releases write the page size that the kinds of cache share into the specs.
    executor.get_kv_cache_specs.return_value = copy.deepcopy(specs)
    executor.determine_available_memory.return_value = [available] * len(specs)
    executor.get_supported_kv_cache_layouts.side_effect = lambda: [_layouts(config)] * len(specs)
    executor.initialize_from_config.side_effect = initialize_from_config
    engine = mock.MagicMock(model_executor=executor, available_gpu_memory_for_kv_cache=-1)
    cache = config.cache_config
    # It writes what it decided into the configuration; the next pool starts from the same one.
    before = {name: getattr(cache, name) for name in vars(cache)}
    length = config.model_config.max_model_len
    loggers = [_logger(lines, name) for name in ("kv_cache_utils", "kv_cache_planning")]
    try:
        for one in loggers:
            one.start()
        core.EngineCore._initialize_kv_caches(engine, config)
    except _Planned:
        pass
    except ValueError as error:
        return Pool(available, 0, 0, 0, " ".join(str(error).split()))
    finally:
        for one in loggers:
            one.stop()
        for name, value in before.items():
            setattr(cache, name, value)
        config.model_config.max_model_len = length
    said = [int(found[1].replace(",", "")) for line in lines if (found := _SAID.search(line))]
    # One line for each worker; the last worker's is as good as the first one's.
    tokens = min(said)
    return Pool(available, tokens, int(configs[0].num_blocks), len(configs[0].kv_cache_groups))


def _logger(lines: list[str], name: str) -> Any:
    try:
        module = importlib.import_module(f"vllm.v1.core.{name}")
    except ModuleNotFoundError:
        return mock.patch.dict({})
    return mock.patch.object(module, "logger", _Recorder(lines))


def _layouts(config: Any) -> list[str]:
    """What a worker says of the layouts that its backends take, by the worker's own code."""
    module: Any = importlib.import_module("vllm.v1.worker.worker_base")
    worker = mock.MagicMock(vllm_config=config)
    found: list[str] = module.WorkerBase.get_supported_kv_cache_layouts(worker)
    return found
