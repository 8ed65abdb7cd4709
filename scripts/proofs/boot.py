"""`python -m scripts.proofs.boot CASE OUT`: start one engine in this process, let it generate, write down what it did.

CASE and OUT are JSON files. CASE: {"model", "spec" (the speculative config or null), "engine" (more arguments of
vllm.LLM), "tokens" (how many to generate for each prompt), "experts" (whether to compare them with the checkpoint),
"modules" (whether to look which module of the trunk does not repeat itself)}.
OUT has `error` {"type", "message"} when the engine did not start or did not generate.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

_PROMPTS, _PROMPT_TOKENS = 4, 300
"""Longer than a block of 256, so that every cache is read across blocks."""
_FORCED_PROMPTS, _FORCED_TOKENS = 8, 64


def main(case_file: str, out_file: str) -> int:
    """Run the case; returns 0 also when the engine failed, which may be what is to be shown."""
    case = json.loads(Path(case_file).read_text(encoding="utf-8"))
    result: dict[str, Any] = {"started": False, "error": None}

    def save() -> None:
        Path(out_file).write_text(json.dumps(result), encoding="utf-8")

    try:
        _run(case, result, save)
    except Exception as error:
        traceback.print_exc()
        result["error"] = {"type": type(error).__name__, "message": str(error)}
    save()
    return 0


def _run(case: dict[str, Any], result: dict[str, Any], save: Callable[[], None]) -> None:
    # The engine runs in this process, so that its layers can be looked at.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    share_kernels()
    from vllm import LLM  # type: ignore[import-not-found,unused-ignore]

    witness = None
    if case["experts"]:
        from scripts.proofs.witness import Witness

        config = json.loads((Path(case["model"]) / "config.json").read_text(encoding="utf-8"))
        witness = Witness(Path(case["model"]), config["num_hidden_layers"])
        witness.install()
    begin = time.monotonic()
    try:
        llm = LLM(**arguments(case))
        result["started"] = True
        result["start_s"] = round(time.monotonic() - begin, 1)
        # That it started is known also when it is ended while it generates.
        save()
        result["outputs"] = generate(llm, prompts(llm), case["tokens"])
        if case["spec"]:
            result["speculation"] = _speculation(llm)
        save()
        # Twice: how far one engine repeats itself.
        result["forced"] = [forced(llm), forced(llm)]
        _look_further(llm, case, result)
        if witness is not None:
            try:
                witness.kernel()
            except Exception as error:
                # What the engine did stands; only this witness is missing.
                traceback.print_exc()
                result["kernel_error"] = str(error)
    finally:
        if witness is not None:
            result["experts"] = [asdict(layer) for layer in witness.layers]


def share_kernels() -> None:
    """Take DeepGEMM from the installed package, whatever the tree: it names compiled kernels by its own path too, and
    would compile for minutes what another tree has compiled."""
    site = os.environ.get("PROOF_SITE")
    if site:
        import vllm.third_party  # type: ignore[import-not-found,unused-ignore]

        vllm.third_party.__path__.insert(0, str(Path(site) / "vllm" / "third_party"))


def arguments(case: dict[str, Any]) -> dict[str, Any]:
    """Arguments of vllm.LLM for a case: small, eager, several engines side by side on one GPU."""
    fixed: dict[str, Any] = {
        "model": case["model"],
        "skip_tokenizer_init": True,
        "block_size": 256,
        "max_model_len": 4096,
        "max_num_seqs": 4,
        "enforce_eager": True,
        # vLLM sorts the tokens of an expert with atomic additions from 1,024 routed ones (170 tokens with 6 experts
        # each) on, so larger steps give other sums each time.
        "max_num_batched_tokens": 128,
        # Only a bound for the start; the cache's size is given so that engines do not profile each other.
        "gpu_memory_utilization": 0.1,
        "kv_cache_memory_bytes": 2 << 30,
        "disable_log_stats": False,
        "speculative_config": case["spec"],
    }
    return {**fixed, **case["engine"]}


def prompts(llm: Any, count: int = _PROMPTS) -> list[dict[str, list[int]]]:
    """Seeded prompts of ordinary tokens, the same for every case with this vocabulary."""
    import random

    vocabulary = llm.llm_engine.model_config.get_vocab_size()
    generator = random.Random(1)
    return [
        {"prompt_token_ids": [generator.randrange(2, vocabulary - 1) for _ in range(_PROMPT_TOKENS + i)]}
        for i in range(count)
    ]


def generate(llm: Any, prompts: list[dict[str, list[int]]], tokens: int) -> list[dict[str, list[float]]]:
    """Greedy tokens of every prompt and the log-probability of each."""
    from vllm import SamplingParams

    sampling = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True, detokenize=False, logprobs=1)
    found = []
    for output in llm.generate(prompts, sampling, use_tqdm=False):
        ids = list(output.outputs[0].token_ids)
        places = output.outputs[0].logprobs or []
        found.append({"tokens": ids, "logprobs": [place[id].logprob for place, id in zip(places, ids, strict=False)]})
    return found


def forced(llm: Any) -> dict[str, list[float]]:
    """What the target says at every place of answers that are given: each prompt's is one token over and over.

    So every case is asked about the same places after the same tokens, whatever it would have written itself. Returns
    for each place the target's `best` token, the `logprob` of the given one and that of the best.
    """
    from vllm import SamplingParams

    llm.reset_prefix_cache()
    asked = prompts(llm, _FORCED_PROMPTS)
    given = [prompt["prompt_token_ids"][0] for prompt in asked]
    fixed: dict[str, Any] = {"temperature": 0, "ignore_eos": True, "detokenize": False, "logprobs": 1}
    sampling = [SamplingParams(max_tokens=_FORCED_TOKENS, allowed_token_ids=[token], **fixed) for token in given]
    found: dict[str, list[float]] = {"best": [], "logprob": [], "best_logprob": []}
    for token, output in zip(given, llm.generate(asked, sampling, use_tqdm=False), strict=True):
        for place in output.outputs[0].logprobs:
            best = max(place, key=lambda id: (place[id].logprob, -id))
            found["best"].append(best)
            found["logprob"].append(place[token if token in place else best].logprob)
            found["best_logprob"].append(place[best].logprob)
    return found


def _look_further(llm: Any, case: dict[str, Any], result: dict[str, Any]) -> None:
    """The caches' shapes and, where asked for, the modules that do not repeat themselves; what the engine did stands
    also when this fails."""
    from scripts.proofs import look

    try:
        result["caches"] = look.caches(llm)
        if case.get("modules"):
            result["modules"] = look.modules(llm, prompts(llm, 1)[0])
    except Exception as error:
        traceback.print_exc()
        result["look_error"] = f"{type(error).__name__}: {error}"


def _speculation(llm: Any) -> dict[str, Any]:
    """Counts of drafts, draft tokens and accepted tokens, accepted ones by position, and this project's own counts."""
    found: dict[str, Any] = {}
    for metric in llm.get_metrics():
        name = metric.name.removeprefix("vllm:spec_decode_num_")
        if name == metric.name:
            continue
        values = getattr(metric, "values", None)
        found[name] = list(values) if values is not None else metric.value
    return found | _own_counts()


def _own_counts() -> dict[str, dict[str, float]]:
    """Counters of this project's patches by draft position; vLLM's own list of metrics leaves them out."""
    import prometheus_client

    found: dict[str, dict[str, float]] = {}
    for metric in prometheus_client.REGISTRY.collect():
        if metric.name.startswith("hallmark:"):
            for sample in metric.samples:
                if sample.name.endswith("_total"):
                    found.setdefault(metric.name, {})[sample.labels["position"]] = sample.value
    return found


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
