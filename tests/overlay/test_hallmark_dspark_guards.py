"""What a DSpark draft must have loaded."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest


def both(*parts: str) -> tuple[str, ...]:
    return tuple(f"{half}{part}" for half in ("w13", "w2") for part in parts)


NVFP4 = both("_weight", "_weight_scale", "_weight_scale_2", "_input_scale")
MXFP4 = both("_weight", "_weight_scale")
FP8 = both("_weight", "_weight_scale_inv")


def stage(method: str, shared: object = "a module") -> Any:
    quant_method = type(method, (), {})()
    experts = SimpleNamespace(routed_experts=SimpleNamespace(quant_method=quant_method))
    return SimpleNamespace(ffn=SimpleNamespace(experts=experts, shared_experts=shared))


def mega_stage() -> Any:
    experts = type("DeepGemmMegaMoEExperts", (), {"has_fused_shared_experts": True})()
    return SimpleNamespace(ffn=SimpleNamespace(experts=experts, shared_experts=None))


def routed(i: int, parameters: tuple[str, ...]) -> set[str]:
    return {f"model.layers.{i}.ffn.experts.routed_experts.{name}" for name in parameters}


def shared(i: int, halves: tuple[str, ...] = ("gate_up_proj", "down_proj")) -> set[str]:
    return {f"model.layers.{i}.ffn.shared_experts.{half}.weight" for half in halves}


@pytest.fixture
def check(overlay: Callable[..., Any]) -> Callable[..., None]:
    return overlay("hallmark_dspark_guards").check_draft_experts  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("method", "parameters"),
    [("ModelOptNvFp4FusedMoE", NVFP4), ("Mxfp4MoEMethod", MXFP4), ("Fp8MoEMethod", FP8), ("Online", FP8)],
)
def test_a_complete_draft_passes(method: str, parameters: tuple[str, ...], check: Callable[..., None]) -> None:
    check([stage(method)] * 2, routed(0, parameters) | shared(0) | routed(1, parameters) | shared(1))


def test_every_missing_family_is_named_with_its_stage(check: Callable[..., None]) -> None:
    with pytest.raises(RuntimeError) as caught:
        check([stage("Mxfp4MoEMethod")] * 3, routed(0, MXFP4) | shared(0) | shared(1) | routed(2, MXFP4))
    assert "stage 1: no routed expert weights" in str(caught.value)
    assert "stage 2: no shared expert weights" in str(caught.value)
    assert "stage 0" not in str(caught.value)


def test_a_stage_of_two_digits_does_not_stand_for_one_of_one(check: Callable[..., None]) -> None:
    with pytest.raises(RuntimeError, match="stage 1: no routed"):
        check([stage("Mxfp4MoEMethod")] * 2, routed(0, MXFP4) | shared(0) | routed(11, MXFP4) | shared(1))


def test_mxfp4_weights_in_nvfp4_experts_are_refused(check: Callable[..., None]) -> None:
    with pytest.raises(RuntimeError, match=r"stage 0: the experts were built with ModelOptNvFp4FusedMoE, .* MXFP4"):
        check([stage("ModelOptNvFp4FusedMoE")], routed(0, MXFP4) | shared(0))


def test_nvfp4_weights_in_mxfp4_experts_are_refused(check: Callable[..., None]) -> None:
    with pytest.raises(RuntimeError, match=r"built with Mxfp4MoEMethod, .* NVFP4"):
        check([stage("Mxfp4MoEMethod")], routed(0, NVFP4) | shared(0))


@pytest.mark.parametrize(
    ("method", "parameters", "absent"),
    [
        ("ModelOptNvFp4FusedMoE", NVFP4, "w2_weight_scale_2"),
        ("Mxfp4MoEMethod", MXFP4, "w13_weight"),
        ("Fp8MoEMethod", FP8, "w2_weight_scale_inv"),
    ],
)
def test_half_a_family_is_refused_by_the_name_of_the_other_half(
    method: str, parameters: tuple[str, ...], absent: str, check: Callable[..., None]
) -> None:
    loaded = routed(0, tuple(name for name in parameters if name != absent)) | shared(0)
    with pytest.raises(RuntimeError, match=f"stage 0: of the routed expert weights, {absent} were not loaded"):
        check([stage(method)], loaded)


def test_half_of_the_shared_experts_is_refused_by_the_name_of_the_other_half(check: Callable[..., None]) -> None:
    loaded = routed(0, MXFP4) | shared(0, ("gate_up_proj",))
    with pytest.raises(RuntimeError, match="stage 0: of the shared expert weights, down_proj were not loaded"):
        check([stage("Mxfp4MoEMethod")], loaded)


def test_a_model_without_shared_experts_needs_none(check: Callable[..., None]) -> None:
    check([stage("Mxfp4MoEMethod", shared=None)], routed(0, MXFP4))


def test_fused_shared_experts_are_found_under_the_routed_ones(check: Callable[..., None]) -> None:
    experts = "model.layers.0.ffn.experts"
    names = {f"{experts}.{name}" for name in MXFP4}
    check([mega_stage()], names | {f"{experts}.shared_l1_weight", f"{experts}.shared_l2_weight"})
    with pytest.raises(RuntimeError, match="of the shared expert weights, shared_l2 were not loaded"):
        check([mega_stage()], names | {f"{experts}.shared_l1_weight"})
    with pytest.raises(RuntimeError, match="stage 0: no shared expert weights"):
        check([mega_stage()], names)
    with pytest.raises(RuntimeError, match="stage 0: no routed expert weights"):
        check([mega_stage()], {f"{experts}.shared_l1_weight"})


def test_the_method_of_each_stage_is_logged(check: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    check([stage("Mxfp4MoEMethod")], routed(0, MXFP4) | shared(0))
    assert "draft stage 0: experts built with Mxfp4MoEMethod, MXFP4 weights loaded" in caplog.text
