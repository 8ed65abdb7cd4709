"""What the API server makes of the counts, and what happens when the diagnostic is off."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import prometheus_client
import pytest
from prometheus_client import multiprocess

from tests.overlay.conftest import OVERLAY

# One API server of several, with a stand-in for vLLM's logger.
API_SERVER = """
import logging, os, sys, types
sys.modules["vllm"] = types.ModuleType("vllm")
sys.modules["vllm.logger"] = types.SimpleNamespace(init_logger=logging.getLogger)
sys.path.insert(0, sys.argv[1])
import pathlib, prometheus_client, hallmark_draft_agreement as agreement
agreement.AgreementMetrics(pathlib.Path(os.environ["FOLDER"]), 2, ["engine"], {0: ["0"]}, prometheus_client.Counter).refresh(0)
"""
SPECULATION = SimpleNamespace(num_speculative_tokens=2)
ENGINES: dict[int, list[object]] = {0: ["m", "0"], 1: ["m", "1"]}


@pytest.fixture
def agreement(overlay: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module with a clock of ours: `agreement.now`."""
    module: Any = overlay("hallmark_draft_agreement")
    module.now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: module.now, time_ns=lambda: 1))
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


def leave(folder: Path, compared: list[int], agreed: list[int], engine: int = 0, run: int = 1) -> None:
    text = json.dumps({"run": run, "compared": compared, "agreed": agreed})
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
    leave(tmp_path, [12, 1], [1, 0], run=2)
    metrics.refresh(0)
    assert shown(registry, agreement) == [22, 11, 9, 8]


def test_the_file_is_read_at_most_once_a_second(
    agreement: Any, metrics: Any, registry: prometheus_client.CollectorRegistry, tmp_path: Path
) -> None:
    leave(tmp_path, [10, 10], [8, 8])
    metrics.refresh(0)
    leave(tmp_path, [20, 20], [8, 8])
    agreement.now += 0.5
    metrics.refresh(0)
    assert shown(registry, agreement)[0] == 10


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "{}",
        '{"run": 1, "compared": [1, 1, 1], "agreed": [1, 1, 1]}',
        '{"run": 1, "compared": null}',
    ],
)
def test_a_missing_or_broken_file_changes_nothing(
    text: str | None, agreement: Any, metrics: Any, registry: prometheus_client.CollectorRegistry, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "draft-agreement-0.json").write_text(text)
    metrics.refresh(0)
    assert shown(registry, agreement) == [0, 0, 0, 0]


@pytest.mark.parametrize("text", ["{", "[]", '{"run": 1, "compared": [1, 1]}'])
def test_a_broken_note_of_what_was_told_is_written_anew(
    text: str, agreement: Any, metrics: Any, registry: prometheus_client.CollectorRegistry, tmp_path: Path
) -> None:
    (tmp_path / "draft-agreement-0.told").write_text(text)
    for total in (10, 12):
        leave(tmp_path, [total, 0], [0, 0])
        metrics.refresh(0)
        agreement.now += 2
    assert shown(registry, agreement)[0] == 12


def test_metrics_that_are_made_a_second_time_go_on_counting(
    agreement: Any, metrics: Any, registry: prometheus_client.CollectorRegistry, tmp_path: Path
) -> None:
    leave(tmp_path, [10, 10], [8, 8])
    metrics.refresh(0)
    again = agreement.agreement_metrics(
        SPECULATION, ["model", "engine"], ENGINES, partial(prometheus_client.Counter, registry=registry)
    )
    leave(tmp_path, [12, 12], [8, 8])
    again.refresh(0)
    assert shown(registry, agreement) == [12, 12, 8, 8]


def test_the_counters_of_several_api_servers_add_up_to_what_the_worker_counted(tmp_path: Path) -> None:
    """Real processes with the client library's files, which is how vLLM serves /metrics with --api-server-count."""
    (tmp_path / "files").mkdir()
    leave(tmp_path, [10, 9], [8, 3])
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "files"), "FOLDER": str(tmp_path)}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", API_SERVER, str(OVERLAY)], env=environment, check=True)
    registry = prometheus_client.CollectorRegistry()
    multiprocess.MultiProcessCollector(registry, path=str(tmp_path / "files"))  # type: ignore[no-untyped-call]
    lines = prometheus_client.generate_latest(registry).decode().splitlines()
    assert [float(line.split()[-1]) for line in lines if 'position="0"' in line] == [10, 8]


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
    left = json.loads((tmp_path / "draft-agreement-0.json").read_text())
    assert (left["compared"], left["agreed"]) == ([20, 4], [14, 1])
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
