"""Counts, per draft position, how often a draft token is the target's most likely one: in the log and in /metrics.

A diagnostic, off unless HALLMARK_DRAFT_AGREEMENT names a folder. Acceptance depends on temperatures and on chance;
this does not, so position 0 tells a draft with wrong weights from one that is merely unlucky. The sampling worker
counts on its device and once a second leaves the totals in the folder; the API server on the same machine adds them
to its counters when it next records speculation. Of several API servers the one that looks first adds them, so that
their sum is right. The steps of vLLM's own warm-up are counted as well.
"""

import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vllm.logger import init_logger

logger = init_logger("vllm.hallmark")

VARIABLE = "HALLMARK_DRAFT_AGREEMENT"
COMPARED = "hallmark:draft_argmax_compared_per_pos"
AGREED = "hallmark:draft_argmax_agreed_per_pos"

# Reading the counts waits for the device, so not at every step.
_WRITE_SECONDS = 1.0
_LOG_SECONDS = 10.0

_COUNTS = ("compared", "agreed")
_families: dict[str, Any] = {}


def draft_agreement(speculative_config: Any, device: Any) -> "DraftAgreement | None":
    """What the rejection sampler counts with: None when switched off, and on all but the first rank of a group."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    from vllm.distributed.parallel_state import get_dp_group, get_tensor_model_parallel_rank

    # Every rank of a tensor-parallel group sees the same tokens, or a share of the requests.
    if get_tensor_model_parallel_rank() != 0:
        return None
    path = _path(folder, get_dp_group().rank_in_group)
    path.parent.mkdir(parents=True, exist_ok=True)
    logger.info("Draft agreement with the target is counted and left in %s", path)
    return DraftAgreement(speculative_config.num_speculative_tokens, device, path)


class DraftAgreement:
    """Counters of one sampling worker, for `positions` draft positions."""

    def __init__(self, positions: int, device: Any, path: Path) -> None:
        import torch

        self._last = positions - 1
        self._path = path
        self._run = time.time_ns()
        self._compared = torch.zeros(positions, dtype=torch.int64, device=device)
        self._agreed = torch.zeros_like(self._compared)
        self._written = self._logged = float("-inf")
        self._at_log = [[0] * positions, [0] * positions]

    def observe(self, logits: Any, tokens: Any, position: Any) -> None:
        """Compare one batch; nothing here waits for the device.

        All have one row for each sampled place: `logits` are the target's ([rows, vocabulary]), before sampling
        parameters change them, `tokens` what stands there (a request's last token, then its drafts; negative: no
        draft), `position` the row's place in its request.
        """
        # A row judges the token of the row behind it, unless that one begins another request.
        compared = (position[1:] > 0) & (tokens[1:] >= 0)
        agreed = compared & (logits.argmax(dim=-1)[:-1] == tokens[1:])
        # Also where the batch was padded and nothing was written: an index out of range would end the worker.
        at = position[:-1].clamp(0, self._last).long()
        self._compared.index_add_(0, at, compared.long())
        self._agreed.index_add_(0, at, agreed.long())
        self._tell(time.monotonic())

    def _tell(self, now: float) -> None:
        if now - self._written < _WRITE_SECONDS:
            return
        self._written = now
        compared, agreed = self._compared.tolist(), self._agreed.tolist()
        temporary = self._path.with_suffix(".new")
        try:
            totals = {"run": self._run, "compared": compared, "agreed": agreed}
            temporary.write_text(json.dumps(totals), encoding="utf-8")
            temporary.replace(self._path)
        except OSError as error:
            # A diagnostic must not end the serving.
            logger.warning("Draft agreement is no longer told: %s", error)
            self._written = float("inf")
            return
        if now - self._logged < _LOG_SECONDS:
            return
        self._logged = now
        parts = [
            f"position {i}: {(hits - hits_then) / (seen - seen_then):.1%} of {seen - seen_then}"
            for i, (seen, hits, seen_then, hits_then) in enumerate(zip(compared, agreed, *self._at_log, strict=True))
            if seen > seen_then
        ]
        self._at_log = [compared, agreed]
        if parts:
            logger.info("Draft agreement with the target's argmax: %s", ", ".join(parts))


def agreement_metrics(
    speculative_config: Any,
    labelnames: list[str],
    per_engine_labelvalues: Mapping[int, Sequence[object]],
    counter: Any,
) -> "AgreementMetrics | None":
    """The API server's counters, made with the class `counter`; None when switched off."""
    folder = os.environ.get(VARIABLE)
    if not folder or speculative_config is None:
        return None
    return AgreementMetrics(
        Path(folder), speculative_config.num_speculative_tokens, labelnames, per_engine_labelvalues, counter
    )


class AgreementMetrics:
    """Follows the totals that each engine's worker leaves in the folder."""

    def __init__(
        self,
        folder: Path,
        positions: int,
        labelnames: list[str],
        per_engine_labelvalues: Mapping[int, Sequence[object]],
        counter: Any,
    ) -> None:
        self._folder = folder
        self._positions = positions
        self._read = dict.fromkeys(per_engine_labelvalues, float("-inf"))
        self._counters: dict[str, dict[int, list[Any]]] = {}
        for key, name, text in (
            ("compared", COMPARED, "Draft tokens that were compared with the target's most likely token."),
            ("agreed", AGREED, "Draft tokens that were the target's most likely token."),
        ):
            # A second counter of this name in one process is an error of the client library, and vLLM makes its
            # metrics anew when an engine is scaled or a second one is started.
            if name not in _families:
                _families[name] = counter(name=name, documentation=text, labelnames=[*labelnames, "position"])
            self._counters[key] = {
                engine: [_families[name].labels(*values, str(position)) for position in range(positions)]
                for engine, values in per_engine_labelvalues.items()
            }

    def refresh(self, engine: int) -> None:
        """Add what the worker of `engine` counted and nobody told yet; looks at most once a second, never raises."""
        now = time.monotonic()
        if now - self._read.get(engine, now) < _WRITE_SECONDS:
            return
        self._read[engine] = now
        try:
            untold = _claim(_path(self._folder, engine), self._positions)
        except (OSError, ValueError, TypeError, KeyError):
            # Gone, half a file, or another program's; a diagnostic must not end the serving.
            return
        for key, counters in self._counters.items():
            for child, count in zip(counters[engine], untold[key], strict=True):
                child.inc(count)


def _claim(path: Path, positions: int) -> dict[str, list[int]]:
    """The counts in `path` that no API server has told, which are told from now on."""
    totals = json.loads(path.read_text(encoding="utf-8"))
    with os.fdopen(os.open(path.with_suffix(".told"), os.O_RDWR | os.O_CREAT, 0o644), "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = _before(file.read(), totals["run"], positions)
        untold = {
            key: [max(0, total - seen) for total, seen in zip(totals[key], before[key], strict=True)] for key in _COUNTS
        }
        if any(map(any, untold.values())):
            file.seek(0)
            file.write(json.dumps(totals))
            file.truncate()
    return untold


def _before(told: str, run: int, positions: int) -> dict[str, list[int]]:
    """What was told of this run of a worker, which counts from zero when it starts anew."""
    try:
        before = json.loads(told)
        if before["run"] == run:
            return {key: before[key] for key in _COUNTS}
    except (ValueError, TypeError, KeyError):
        pass
    return dict.fromkeys(_COUNTS, [0] * positions)


def _path(folder: str | Path, engine: int) -> Path:
    return Path(folder) / f"draft-agreement-{engine}.json"
