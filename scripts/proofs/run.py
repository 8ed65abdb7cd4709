"""Runs the starts of a proof, each in a process of its own with a log and a time limit, several side by side.

Results are kept in the folder `out`, one JSON file a case; a case that has one is not run again, so a proof can be
cut into pieces that fit a machine's time.
"""

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.proofs import trees

_ROOT = Path(__file__).parents[2]
_ENV = {
    # DeepGEMM's warm-up compiles thousands of kernels first.
    "VLLM_DEEP_GEMM_WARMUP": "skip",
    "VLLM_USE_BREAKABLE_CUDAGRAPH": "0",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
_GRACE = 90.0


@dataclass(frozen=True)
class Places:
    """Folders of one run: installed packages, checkpoints, compiled patch sets with the applier, trees, results."""

    site: Path
    checkpoints: Path
    kit: Path
    trees: Path
    out: Path


def tree(places: Places, name: str, recipe: dict[str, Any]) -> Path:
    """The source tree `name`, made when it is not there; the released one is the installed package itself."""
    if not recipe:
        return places.site
    folder = places.trees / name
    note = folder / "tree.json"
    if not note.exists():
        trees.copy(places.site, folder)
        if removed := recipe.get("remove"):
            trees.remove_quant_modes(folder, removed)
        report = ""
        if patchset := recipe.get("patchset"):
            report = trees.apply(folder, places.kit / "applier.pyz", places.kit / f"{patchset}.json")
        note.write_text(json.dumps({"name": name, "report": report}), encoding="utf-8")
    return folder


def environment(places: Places, folder: Path) -> dict[str, str]:
    """The variables of a process that runs with the sources in `folder`."""
    paths = [str(folder), str(_ROOT), os.environ.get("PYTHONPATH", "")]
    own = {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        # What vLLM keeps about its models there is of one source tree: two that take turns look at each anew.
        "VLLM_CACHE_ROOT": str(places.out.parent / "cache" / folder.name),
        # No patch touches DeepGEMM, so all trees use one and what it has compiled.
        "PROOF_SITE": str(places.site),
        "DG_JIT_CACHE_DIR": str(places.out.parent / "cache" / "deep_gemm"),
    }
    return os.environ | _ENV | own


def engine_case(places: Places, case: dict[str, Any]) -> dict[str, Any]:
    """What `scripts.proofs.boot` reads for a case of cases.yaml."""
    dense = case["model"] == "qwen3"
    spec = None
    if case["speculate"]:
        spec = {"method": "dspark", "num_speculative_tokens": 5} | case.get("spec", {})
        named = "qwen3-draft" if dense else spec.get("model")
        if named:
            spec["model"] = str(places.checkpoints / named)
    return {
        "model": str(places.checkpoints / case["model"]),
        "spec": spec,
        "engine": ({} if dense else {"kv_cache_dtype": "fp8"}) | case.get("engine", {}),
        "tokens": case.get("tokens", 64),
        "experts": not dense,
        "modules": case.get("modules", False),
    }


def cases(places: Places, plan: dict[str, Any], names: list[str], parallel: int, limit: float, until: float) -> None:
    """Run the cases `names` in that order, at most `parallel` at a time and `limit` seconds each.

    None is begun after `until`, a time of time.monotonic(), and none goes on for more than `_GRACE` seconds after it.
    """
    places.out.mkdir(parents=True, exist_ok=True)
    known = {case["name"]: case for case in plan["cases"]}
    chosen = [known[name] for name in names if not _result(places, known[name]).exists()]
    making = threading.Lock()

    def run(case: dict[str, Any]) -> None:
        if time.monotonic() > until:
            print(f"{case['name']}: not begun, the time is up", flush=True)
            return
        with making:
            folder = tree(places, case["tree"], plan["trees"][case["tree"]])
        _run(places, case, folder, min(limit, until + _GRACE - time.monotonic()))

    with ThreadPoolExecutor(parallel) as pool:
        for done in [pool.submit(run, case) for case in chosen]:
            try:
                done.result()
            except Exception as error:
                # One case's tree that cannot be made must not cost the others' their time.
                print(f"failed: {error}", flush=True)


def _result(places: Places, case: dict[str, Any]) -> Path:
    return places.out / f"{case['name']}.json"


def _run(places: Places, case: dict[str, Any], folder: Path, limit: float) -> None:
    name = case["name"]
    asked, answered, log = (places.out / f"{name}.{end}" for end in ("case", "part", "log"))
    asked.write_text(json.dumps(engine_case(places, case)), encoding="utf-8")
    answered.unlink(missing_ok=True)
    variables = environment(places, folder)
    if "folder" in case:
        variables[case["folder"]] = str(places.out / f"{name}.folder")
    begin = time.monotonic()
    with log.open("wb") as out:
        command = [sys.executable, "-u", "-m", "scripts.proofs.boot", str(asked), str(answered)]
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=variables,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            status = None
    found: dict[str, Any] = {"started": False, "error": None}
    if answered.exists():
        found = json.loads(answered.read_text(encoding="utf-8"))
    found |= {"exit": status, "wall_s": round(time.monotonic() - begin, 1)}
    _result(places, case).write_text(json.dumps(found), encoding="utf-8")
    error = found["error"] or ({} if found["started"] else {"message": "no result; see the log"})
    print(f"{name}: exit {status}, {found['wall_s']} s, {error.get('message', 'started')[:200]!r}", flush=True)
