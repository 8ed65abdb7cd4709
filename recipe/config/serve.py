"""Rules for the flags of the serve command that need no model: spelling, switches, two forms of one option."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from recipe.config.source import Document
from recipe.errors import Problem

# The planner writes these from the cluster file, the same on every rank where they must be the same.
MANAGED = {
    "nnodes": "the number of the cluster's nodes",
    "node-rank": "the order of the cluster's nodes",
    "master-addr": "the head's `fabric` in the cluster file",
    "master-port": "`ports.master` in the cluster file",
    "headless": "the order of the cluster's nodes",
    "port": "`ports.api` in the cluster file",
    "model": "the profile's `model`",
}
SECRET_FLAGS = {"api-key": "VLLM_API_KEY", "hf-token": "HF_TOKEN"}
_SPECULATIVE = {"spec-method", "spec-model", "spec-tokens"}
_WHOLE = {
    "tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "prefill-context-parallel-size",
    "max-num-seqs", "block-size", "spec-tokens", "max-num-batched-tokens",
}  # fmt: skip
_WORD, _COUNT, _SWITCH = "one word", "a whole number above 0", "true or false"
_IS: dict[str, Callable[[Any], bool]] = {
    _WORD: lambda value: isinstance(value, str) and value != "",
    _COUNT: lambda value: isinstance(value, int) and not isinstance(value, bool) and value > 0,
    _SWITCH: lambda value: isinstance(value, bool),
}
_FOR = {_WORD: "one name", _COUNT: "plain decimal digits", _SWITCH: "true or false without quotes"}
# Of vLLM's SpeculativeConfig, KernelConfig and AttentionConfig (0.32.0); keys that are not here are vLLM's to judge.
_DRAFT = {
    **dict.fromkeys(
        ("method", "model", "quantization", "moe_backend", "attention_backend", "kv_cache_dtype", "revision"), _WORD
    ),
    **dict.fromkeys(("code_revision", "rejection_sample_method"), _WORD),
    **dict.fromkeys(("draft_tensor_parallel_size", "max_model_len", "prompt_lookup_max", "prompt_lookup_min"), _COUNT),
    **dict.fromkeys(("enforce_eager", "disable_padded_drafter_batch", "parallel_drafting"), _SWITCH),
}
_MAPPINGS = {
    "speculative-config": {**_DRAFT, "num_speculative_tokens": _COUNT},
    "kernel-config": dict.fromkeys(("moe_backend", "linear_backend"), _WORD),
    "attention-config": {"backend": _WORD},
}
# Flags that take exactly one word; a list would become several, a mapping one of JSON.
_WORDS = {
    "attention-backend", "distributed-executor-backend", "dtype", "host", "kv-cache-dtype", "linear-backend",
    "load-format", "moe-backend", "quantization", "reasoning-parser", "tokenizer", "tokenizer-mode", "tool-call-parser",
}  # fmt: skip
_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[^\s=.]+)*", re.ASCII)
_SWITCHES = {"true", "false"}

Wrong = tuple[str, str, str]


def normal(flag: str) -> str:
    """The flag with `-` for `_` in its own name; what follows a dot is a key of JSON and stays as it is."""
    name, dot, rest = flag.partition(".")
    return name.replace("_", "-") + dot + rest


def normalised(flags: dict[str, Any]) -> dict[str, Any]:
    """All flags by their normal names, in the same order."""
    return {normal(flag): value for flag, value in flags.items()}


def problems(document: Document) -> Iterator[tuple[int, Problem]]:
    """What is wrong with the `serve` mapping of a profile, each with its line."""
    serve = document.data.get("serve")
    if isinstance(serve, dict):
        for flag, what, hint in (*_each(serve), *_together(serve)):
            loc = ("serve", flag)
            yield document.line(loc), Problem(f"serve.{flag}: {what}", document.where(loc), hint)


def _each(serve: Mapping[str, Any]) -> Iterator[Wrong]:
    for flag, value in serve.items():
        name = normal(flag)
        if not _NAME.fullmatch(flag):
            yield flag, "is not a flag's name", "write it without leading dashes, in small letters"
        elif name in MANAGED:
            yield flag, "is not a profile's setting", f"take it out; it comes from {MANAGED[name]}"
        elif name in SECRET_FLAGS:
            variable = SECRET_FLAGS[name]
            hint = f"take it out and write `{variable}: env:{variable}` under env"
            yield flag, "would show the secret in every process list", hint
        else:
            yield from _value(flag, name, value)


def _value(flag: str, name: str, value: Any) -> Iterator[Wrong]:
    if isinstance(value, str) and value.lower() in _SWITCHES:
        yield flag, f'"{value}" is text, and a flag would get it as a value', f"write {value.lower()} without quotes"
    elif isinstance(value, str) and "\0" in value:
        yield flag, "holds a NUL character", "take it out"
    elif isinstance(value, str) and not value and "." not in name:
        yield flag, "is an empty text", "write a value, or null to leave the flag out"
    elif value == []:
        yield flag, "is an empty list", "write null to leave the flag out"
    elif name in _WHOLE and (isinstance(value, bool) or not isinstance(value, int | None) or value == 0):
        yield flag, f"{_shown(value)} is not a whole number above 0", "write it in plain decimal digits"
    elif isinstance(value, float) and not math.isfinite(value):
        yield flag, f"{value} is not a number that a flag can take", "write it in decimal digits"
    elif name == "speculative-config" and value is not None:
        yield from _speculative(flag, value)
    elif "." in name and (kinds := _MAPPINGS.get(name.partition(".")[0])):
        yield from _parts(flag, {name.partition(".")[2]: value}, kinds)
    elif name in _MAPPINGS and isinstance(value, dict):
        yield from _parts(flag, value, _MAPPINGS[name])
    elif name in _WORDS and isinstance(value, list | dict | bool):
        yield flag, f"{_shown(value)} is not one word", "write one name, or null to leave the flag out"
    elif name == "gpu-memory-utilization" and value is not None and not _share(value):
        yield (
            flag,
            f"{_shown(value)} is not a share of the memory",
            "write a number above 0 and at most 1, such as 0.85",
        )


def _speculative(flag: str, value: Any) -> Iterator[Wrong]:
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except ValueError:
            found = None
    if not isinstance(found, dict):
        hint = "write for example {method: dspark, num_speculative_tokens: 5}"
        yield flag, f"{_shown(value)} is not a mapping", hint
        return
    tokens = found.get("num_speculative_tokens", 1)
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        yield flag, f"num_speculative_tokens: {_shown(tokens)} is not a whole number above 0", "write for example 5"
    yield from _parts(flag, {key: value for key, value in found.items() if key != "num_speculative_tokens"}, _DRAFT)


def _parts(flag: str, found: Mapping[str, Any], kinds: Mapping[str, str]) -> Iterator[Wrong]:
    """Keys of a mapping whose values are of another kind than vLLM takes; null leaves a key out."""
    for key, value in found.items():
        kind = kinds.get(key)
        if kind is not None and value is not None and not _IS[kind](value):
            yield flag, f"{key}: {_shown(value)} is not {kind}", f"write {_FOR[kind]}, or take it out"


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1


def _together(serve: Mapping[str, Any]) -> Iterator[Wrong]:
    names = {normal(flag): flag for flag in serve}
    for name, flag in names.items():
        option = name.split(".", 1)[0]
        if "." in name and option in names:
            yield flag, f"sets a part of `{names[option]}`, which is written whole too", "keep one of the two forms"
        elif name in _SPECULATIVE and any(key.split(".", 1)[0] == "speculative-config" for key in names):
            yield flag, "sets a part of `speculative-config`, which is written too", "keep one of the two forms"
        elif name.startswith("no-") and name[3:] in names:
            yield flag, f"is the other form of `{names[name[3:]]}`", f"keep `{names[name[3:]]}`: false is --{name}"
