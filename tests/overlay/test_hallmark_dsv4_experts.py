"""Which kind of expert a DeepSeek-V4 layer gets."""

from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

CASES = sorted((Path(__file__).parents[1] / "cases" / "dsv4-experts").glob("*.yaml"))
INDEX = "model.safetensors.index.json"
LAYERS = 43


def checkpoint(
    vllm: Any, names: Iterable[str] | None, ignore: list[str], headers: Iterable[str] = (), draft: bool = True
) -> None:
    """Make `names` the index of the current checkpoint (None: it has no index) and `headers` what its files name."""
    vllm.headers["the/model", "abc"] = dict.fromkeys(headers, {"dtype": "U8"})
    model = SimpleNamespace(
        model="the/model",
        revision="abc",
        hf_text_config=SimpleNamespace(num_hidden_layers=LAYERS),
        hf_config=SimpleNamespace(quantization_config={"moe_quant_algo": "NVFP4", "ignore": ignore}),
    )
    speculative = SimpleNamespace(draft_model_config=model) if draft else None
    vllm.vllm_config = SimpleNamespace(model_config=model, speculative_config=speculative)
    if names is not None:
        vllm.files[INDEX, "the/model", "abc"] = {"weight_map": dict.fromkeys(names, "one.safetensors")}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_a_layer_gets_the_kind_of_expert_that_its_checkpoint_holds(
    case: Path, vllm: Any, overlay: Callable[..., Any]
) -> None:
    spec = yaml.safe_load(case.read_text())
    checkpoint(vllm, spec["tensors"], spec.get("ignore", []), spec.get("headers", []))
    decide = overlay("hallmark_dsv4_experts").experts_are_nvfp4
    found = {prefix: decide(spec["algo"], prefix) for prefix in spec["nvfp4"]}
    assert found == spec["nvfp4"]


def test_the_index_is_read_once_for_all_stages(vllm: Any, overlay: Callable[..., Any]) -> None:
    checkpoint(vllm, [f"mtp.{i}.ffn.experts.0.w1.scale" for i in range(3)], [])
    decide = overlay("hallmark_dsv4_experts").experts_are_nvfp4
    assert [decide("NVFP4", f"model.layers.{LAYERS + i}.ffn.experts") for i in range(3)] == [False] * 3
    assert vllm.reads == [(INDEX, "the/model", "abc")]


def test_trunk_layers_and_other_checkpoints_are_decided_without_reading_anything(
    vllm: Any, overlay: Callable[..., Any]
) -> None:
    checkpoint(vllm, None, [])
    decide = overlay("hallmark_dsv4_experts").experts_are_nvfp4
    assert decide("NVFP4", f"model.layers.{LAYERS - 1}.ffn.experts")
    assert not decide("", f"model.layers.{LAYERS}.ffn.experts")
    assert vllm.reads == []


def test_without_a_draft_config_the_targets_checkpoint_is_asked(vllm: Any, overlay: Callable[..., Any]) -> None:
    checkpoint(vllm, ["mtp.0.ffn.experts.0.w1.scale"], [], draft=False)
    decide = overlay("hallmark_dsv4_experts").experts_are_nvfp4
    assert not decide("NVFP4", f"model.layers.{LAYERS}.ffn.experts")


def test_the_log_says_what_a_stage_got_and_why(
    vllm: Any, overlay: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint(vllm, ["mtp.0.ffn.experts.0.w1.scale"], [])
    caplog.set_level("INFO")
    overlay("hallmark_dsv4_experts").experts_are_nvfp4("NVFP4", f"model.layers.{LAYERS}.ffn.experts")
    assert "draft stage 0: MXFP4 experts (tensor names in the checkpoint)" in caplog.text
