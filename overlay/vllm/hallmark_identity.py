"""Says which patch set runs: one line in every rank's log, one gauge in the API server's /metrics.

Reads the manifest that the patch applier leaves beside the package (PATCHES.json in a dist-info folder). It reports
and never decides: whatever is wrong with the manifest or with the metrics, vLLM starts as it would have without it.
"""

import json
from pathlib import Path
from typing import Any

from vllm.logger import init_logger

# vLLM configures only its own logger tree, so the name has to be below it.
logger = init_logger("vllm.hallmark")

GAUGE = "hallmark:patchset_info"

_gauge: Any = None


def announce(metrics: bool) -> None:
    """Log the running patch set; with `metrics`, show it in /metrics too. Never raises."""
    try:
        manifest = _manifest(Path(__file__).resolve().parent.parent)
        if manifest is None:
            logger.warning("Hallmark patch set unknown: no PATCHES.json beside the vllm package")
            return
        logger.info("%s", _line(manifest))
        if metrics:
            _show(manifest)
    except Exception as error:
        logger.warning("Hallmark patch set unknown: %s: %s", type(error).__name__, error)


def _manifest(site: Path) -> dict[str, Any] | None:
    for path in sorted(site.glob("vllm*.dist-info/PATCHES.json")):
        return json.loads(path.read_text(encoding="utf-8"))
    return None


def _line(manifest: dict[str, Any]) -> str:
    applied = [name for name, patch in manifest["patches"].items() if patch["state"] == "applied"]
    names = f" ({', '.join(applied)})" if applied else ""
    return f"Hallmark patch set {manifest['patchset'][:8]}: {len(applied)} patches applied{names}"


def _show(manifest: dict[str, Any]) -> None:
    # A second gauge of this name in one process is an error of the client library, and vLLM may serve twice in one.
    global _gauge
    from prometheus_client import Gauge

    if _gauge is None:
        _gauge = Gauge(
            GAUGE,
            "The Hallmark patch set that this server runs.",
            labelnames=("patchset", "vllm"),
            # One series for all API server processes, without a pid label.
            multiprocess_mode="mostrecent",
        )
    _gauge.labels(patchset=manifest["patchset"], vllm=manifest["vllm"]).set(1)
