"""Loads overlay modules by path, with stand-ins for the few vLLM modules that they import."""

import importlib.util
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

OVERLAY = Path(__file__).parents[2] / "overlay" / "vllm"


class OnceLogger(logging.Logger):
    """A logger with vLLM's `*_once` methods, which say the same text again in a test."""

    def info_once(self, message: str, *values: object) -> None:
        self.info(message, *values)


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for the vllm package; its `vllm_config` is what get_current_vllm_config answers."""

    def module(name: str, **names: Any) -> ModuleType:
        made = ModuleType(name)
        made.__dict__.update(names)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    def init_logger(name: str) -> OnceLogger:
        logger = OnceLogger(name)
        logger.parent = logging.getLogger()
        return logger

    package = module("vllm", vllm_config=None, files={}, headers={}, reads=[])

    def get_hf_file_to_dict(name: str, model: str, revision: str | None) -> Any:
        package.reads.append((name, model, revision))
        return package.files.get((name, model, revision))

    def get_safetensors_params_metadata(model: str, *, revision: str | None = None) -> Any:
        package.reads.append(("headers", model, revision))
        return package.headers.get((model, revision), {})

    module("vllm.logger", init_logger=init_logger)
    module("vllm.config", get_current_vllm_config=lambda: package.vllm_config)
    module("vllm.transformers_utils")
    module("vllm.transformers_utils.config", get_safetensors_params_metadata=get_safetensors_params_metadata)
    module("vllm.transformers_utils.repo_utils", get_hf_file_to_dict=get_hf_file_to_dict)
    return package


@pytest.fixture
def overlay(vllm: ModuleType) -> Callable[..., ModuleType]:
    """Import `overlay/vllm/NAME.py` afresh, from its place or from a copy in `folder`."""

    def load(name: str, folder: Path = OVERLAY) -> ModuleType:
        path = folder / f"{name}.py"
        if folder != OVERLAY:
            path.write_bytes((OVERLAY / path.name).read_bytes())
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    return load
