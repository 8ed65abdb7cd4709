"""What the API server makes of the counts, and what happens when the diagnostic is off."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import prometheus_client
import pytest

SPECULATION = SimpleNamespace(num_speculative_tokens=2)
ENGINES: dict[int, list[object]] = {0: ["m", "0"], 1: ["m", "1"]}


@pytest.fixture
def agreement(overlay: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module with a clock of ours: `agreement.now`."""
    module: Any = overlay("hallmark_draft_agreement")
    module.now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: module.now))
    return module


@pytest.fixture
def registry() -> prometheus_client.CollectorRegistry:
    return prometheus_client.CollectorRegistry()


@pytest.fixture
def metrics(
    agreement: Any, registry: prometheus_client.CollectorRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.setenv(agreement.VARIABLE, str(tmp_path))
    counter = partial(prometheus_client.Counter, registry=registry)
    return agreement.agreement_metrics(SPECULATION, ["model", "engine"], ENGINES, counter)


def leave(folder: Path, compared: list[int], agreed: list[int], engine: int = 0) -> None:
    text = json.dumps({"compared": compared, "agreed": agreed})
    (folder / f"draft-agreement-{engine}.json").write_text(text)


def shown(registry: prometheus_client.CollectorRegistry, agreement: Any, engine: str = "0") -> list[float | None]:
    return [
        registry.get_sample_value(f"{name}_total", {"model": "m", "engine": engine, "position": position})
        for name in (agreement.COMPARED, agreement.AGREED)
        for position in ("0", "1")
    ]


def test_the_counters_follow_the_totals_of_each_engine(
    agreement: Any, metrics: Any, registry: prometheus_client.CollectorRegistry, tmp_path: Path
) -> None:
    leave(tmp_path, [10, 9], [8, 3])
    leave(tmp_path, [4, 4], [4, 4], engine=1)
    metrics.refresh(0)
    metrics.refresh(1)
    agreement.now += 2
    leave(tmp_path, [20, 18], [17, 5])
    metrics.refresh(0)
    assert shown(registry, agreement) == [20, 18, 17, 5]
    assert shown(registry, agreement, "1") == [4, 4, 4, 4]


def test_a_worker_that_started_anew_is_added_to_what_its_forerunner_counted(
    agreement: Any, metrics: Any, registry: prometheus_client.CollectorRegistry, tmp_path: Path
) -> None:
    leave(tmp_path, [10, 10], [8, 8])
    metrics.refresh(0)
    agreement.now += 2
    leave(tmp_path, [1, 1], [1, 0])
    metrics.refresh(0)
    assert shown(registry, agreement) == [11, 11, 9, 8]


def test_the_file_is_read_at_most_once_a_second(
    agreement: Any, metrics: Any, registry: prometheus_client.CollectorRegistry, tmp_path: Path
) -> None:
    leave(tmp_path, [10, 10], [8, 8])
    metrics.refresh(0)
    leave(tmp_path, [20, 20], [8, 8])
    agreement.now += 0.5
    metrics.refresh(0)
    assert shown(registry, agreement)[0] == 10


@pytest.mark.parametrize("text", [None, "", "{"])
def test_a_missing_or_broken_file_changes_nothing(
    text: str | None, agreement: Any, metrics: Any, registry: prometheus_client.CollectorRegistry, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "draft-agreement-0.json").write_text(text)
    metrics.refresh(0)
    assert shown(registry, agreement) == [0, 0, 0, 0]


def test_without_the_variable_nothing_is_made(agreement: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(agreement.VARIABLE, raising=False)
    assert agreement.draft_agreement(SPECULATION, "cpu") is None
    assert agreement.agreement_metrics(SPECULATION, [], {}, prometheus_client.Counter) is None


@pytest.fixture
def worker(agreement: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A worker's counters, with lists in place of tensors."""

    class Counts(list[int]):
        def tolist(self) -> list[int]:
            return list(self)

    made = SimpleNamespace(int64=int, zeros=lambda n, **_: Counts([0] * n), zeros_like=lambda like: Counts(like))
    monkeypatch.setitem(sys.modules, "torch", made)
    return agreement.DraftAgreement(2, "cpu", tmp_path / "draft-agreement-0.json")


def test_the_log_tells_what_was_counted_since_its_last_line(
    worker: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    worker._compared[:], worker._agreed[:] = [10, 0], [9, 0]
    worker._tell(100.0)
    worker._compared[:], worker._agreed[:] = [20, 4], [14, 1]
    worker._tell(105.0)
    assert json.loads((tmp_path / "draft-agreement-0.json").read_text()) == {"compared": [20, 4], "agreed": [14, 1]}
    worker._tell(110.0)
    assert caplog.messages == [
        "Draft agreement with the target's argmax: position 0: 90.0% of 10",
        "Draft agreement with the target's argmax: position 0: 50.0% of 10, position 1: 25.0% of 4",
    ]


def test_a_folder_that_is_gone_ends_the_diagnostic_and_not_the_worker(
    worker: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.rmdir()
    worker._tell(100.0)
    worker._tell(200.0)
    assert [message.partition(":")[0] for message in caplog.messages] == ["Draft agreement is no longer told"]
