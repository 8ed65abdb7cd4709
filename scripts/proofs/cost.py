"""What patches cost while decoding: two engines side by side on one GPU, one with each tree, measured in turns.

`measure` is the controller; `python -m scripts.proofs.cost CASE` is one engine, which does as each line on its standard
input says. In a round both decode the same batch, prefill not counted, and they take turns step by step: a machine that
is slow for a while is slow for both. Which of the two goes first is drawn anew for every step.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from scripts.proofs import run
from scripts.proofs.run import Places

_TOKENS = 256
_MARK = "ANSWER "


def measure(places: Places, plan: dict[str, Any], pairs: int, until: float, eager: bool) -> dict[str, Any]:
    """Rounds of the trees `released` and `patched`; stops early at `until` (a time of time.monotonic()).

    Returns {"pairs": [[released, patched], ...] in seconds a step, one pair a round, "ratio", "interval", "steps": how
    many a round had}.
    """
    names = ("released", "patched")
    engines = {name: _start(places, plan, name, eager) for name in names}
    try:
        # Two rounds before it counts: kernels are compiled in the first.
        order = random.Random(1)
        for _ in range(2):
            _round(engines, order)
        found: list[list[float]] = []
        steps: set[int] = set()
        while len(found) < pairs and time.monotonic() < until:
            times = _round(engines, order)
            found.append([sum(times[name]) / len(times[name]) for name in names])
            steps.add(len(times["released"]))
    finally:
        for engine in engines.values():
            engine.kill()
            engine.wait()
    return {"pairs": found, "steps": sorted(steps), "eager": eager, **summary(found)}


def summary(pairs: list[list[float]]) -> dict[str, Any]:
    """Median of the pairs' ratios, and the 95 % interval of that median from 10,000 resamples."""
    ratios = [patched / released for released, patched in pairs]
    draw = random.Random(2)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(10_000))
    return {"ratio": statistics.median(ratios), "interval": [medians[249], medians[9749]]}


def _start(places: Places, plan: dict[str, Any], name: str, eager: bool) -> subprocess.Popen[str]:
    case = {"name": f"cost-{name}", "tree": name, "model": "native", "speculate": True}
    folder = run.tree(places, name, plan["trees"][name])
    asked = run.engine_case(places, case)
    asked["engine"] |= {"enforce_eager": eager}
    if not eager:
        # Graphs of whole decode steps; compiling the model as well would take longer than the measurement.
        asked["engine"] |= {"compilation_config": {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}}
    path = places.out / f"cost-{name}.case"
    path.write_text(json.dumps(asked), encoding="utf-8")
    log = (places.out / f"cost-{name}{'-eager' if eager else ''}.log").open("wb")
    command = [sys.executable, "-u", "-m", "scripts.proofs.cost", str(path)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env=run.environment(places, folder),
    )


def _round(engines: dict[str, subprocess.Popen[str]], order: random.Random) -> dict[str, list[float]]:
    """Seconds of each step that both engines had, by tree."""
    left = {name: bool(_ask(engine, "begin")["left"]) for name, engine in engines.items()}
    times: dict[str, list[float]] = {name: [] for name in engines}
    while all(left.values()):
        for name in order.sample(list(engines), len(engines)):
            answer = _ask(engines[name], "step")
            times[name].append(answer["seconds"])
            left[name] = answer["left"]
    for name, engine in engines.items():
        while left[name]:
            left[name] = _ask(engine, "step")["left"]
    return times


def _ask(engine: subprocess.Popen[str], what: str) -> dict[str, Any]:
    assert engine.stdin is not None and engine.stdout is not None
    engine.stdin.write(f"{what}\n")
    engine.stdin.flush()
    for line in engine.stdout:
        if line.startswith(_MARK):
            answer: dict[str, Any] = json.loads(line.removeprefix(_MARK))
            return answer
    raise RuntimeError("an engine of the cost measurement ended; see its log")


def _serve(case_file: str) -> None:
    """One engine: `begin` takes the batch up to its first tokens, `step` is one more step."""
    from scripts.proofs import boot

    boot.share_kernels()
    from vllm import LLM, SamplingParams  # type: ignore[import-not-found,unused-ignore]

    case = json.loads(Path(case_file).read_text(encoding="utf-8"))
    # Every round computes the same; with the prefix cache later ones would begin elsewhere than the first.
    llm = LLM(**boot.arguments(case), enable_prefix_caching=False)
    prompts = boot.prompts(llm)
    sampling = SamplingParams(max_tokens=_TOKENS, temperature=0, ignore_eos=True, detokenize=False)
    engine = llm.llm_engine
    for number, line in enumerate(sys.stdin):
        begin = time.perf_counter()
        if line.strip() == "begin":
            for index, prompt in enumerate(prompts):
                engine.add_request(f"{number}-{index}", prompt, sampling)
            while len(engine.step()) < len(prompts):
                pass
        else:
            engine.step()
        answer = {"seconds": time.perf_counter() - begin, "left": engine.has_unfinished_requests()}
        print(_MARK + json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
