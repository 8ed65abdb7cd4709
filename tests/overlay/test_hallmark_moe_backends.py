"""Which MoE backend a draft gets, and which names are refused."""

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import pytest


def config(trunk: str = "auto", draft: str | None = None, **hf: Any) -> Any:
    hf_config = SimpleNamespace(**{"model_type": "deepseek_v4", "swiglu_limit": 10.0, **hf})
    return SimpleNamespace(
        model_config=SimpleNamespace(hf_config=hf_config),
        kernel_config=SimpleNamespace(moe_backend=trunk),
        speculative_config=SimpleNamespace(moe_backend=draft),
    )


@pytest.fixture
def backends(vllm: ModuleType, overlay: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch) -> Any:
    def replace(value: Any, **changed: Any) -> Any:
        return SimpleNamespace(**{**vars(value), **changed})

    monkeypatch.setattr(sys.modules["vllm.config"], "replace", replace, raising=False)
    kernel = ModuleType("vllm.config.kernel")
    kernel.MoEBackend = Literal["auto", "marlin", "flashinfer_b12x", "b12x"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm.config.kernel", kernel)
    return overlay("hallmark_moe_backends")


def test_the_drafts_config_gets_the_drafts_backend_and_the_trunks_keeps_its_own(backends: Any) -> None:
    trunk = config("triton", "marlin")
    draft = SimpleNamespace(**vars(trunk))
    backends.apply_draft_moe_backend(draft)
    assert (trunk.kernel_config.moe_backend, draft.kernel_config.moe_backend) == ("triton", "marlin")


def test_a_draft_without_a_backend_of_its_own_keeps_the_trunks(backends: Any) -> None:
    draft = config("triton")
    before = draft.kernel_config
    backends.apply_draft_moe_backend(draft)
    assert draft.kernel_config is before


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (config(trunk="flashinfer_b12x"), "--moe-backend: 'flashinfer_b12x'"),
        (config(draft="flashinfer_b12x"), "moe_backend in the speculative config: 'flashinfer_b12x'"),
        (config("flashinfer_b12x", "flashinfer_b12x"), "--moe-backend and moe_backend in the speculative config:"),
        (config("flashinfer_b12x", quantization_config={"moe_quant_algo": "NVFP4"}), "no SwiGLU clamp"),
        (config("flashinfer_b12x", swiglu_limit=None, quantization_config={}), "no MXFP4"),
    ],
    ids=["trunk", "draft", "both", "clamped-nvfp4", "mxfp4-without-clamp"],
)
def test_the_forks_name_is_refused_with_the_place_and_the_name_to_write(backends: Any, made: Any, named: str) -> None:
    with pytest.raises(ValueError, match=r"Write 'b12x' instead\.$") as caught:
        backends.check_moe_backends(made)
    assert named in str(caught.value)


def test_releases_without_b12x_are_told_another_name(backends: Any) -> None:
    sys.modules["vllm.config.kernel"].MoEBackend = Literal["auto", "marlin", "flashinfer_b12x"]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"write 'marlin'; 'b12x' exists from 0\.29\.0 on\.$"):
        backends.check_moe_backends(config("flashinfer_b12x"))


@pytest.mark.parametrize(
    "made",
    [
        config("b12x", "b12x"),
        config("flashinfer_b12x", model_type="qwen3_moe"),
        config("flashinfer_b12x", swiglu_limit=None, quantization_config={"moe_quant_algo": "nvfp4"}),
        SimpleNamespace(model_config=None),
    ],
    ids=["b12x", "another-model", "clampless-nvfp4", "no-model"],
)
def test_everything_else_passes(backends: Any, made: Any) -> None:
    backends.check_moe_backends(made)
