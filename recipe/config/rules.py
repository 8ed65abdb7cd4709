"""Rules between the values of one profile: each with its reason and a severity."""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from recipe.config.explain import nearest
from recipe.config.findings import File, Finding, finding
from recipe.config.load import Loaded
from recipe.config.models import ApiRoutes, Hardware, Profile
from recipe.config.source import Loc

_SECRET = re.compile(r"(.*_)?(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|API_?KEY|ACCESS_KEY)", re.IGNORECASE)
# `//` after the colon makes it the URL of a file, which is a value like any other.
_REFERENCE = re.compile(r"(env:[A-Za-z_][A-Za-z0-9_]*|file:(?!//).+)")
_WORDS = {"yes", "no", "on", "off"}


def is_reference(value: str) -> bool:
    """Whether a variable's value is `env:NAME` or `file:PATH`: where a secret is, not the secret."""
    return _REFERENCE.fullmatch(value) is not None


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return _SECRET.fullmatch(name) is not None


def profile_rules(profile: Loaded[Profile], hardware: Hardware) -> Iterator[Finding]:
    """Findings about a profile on its hardware."""
    yield from ranks_fit_gpus(profile, hardware)
    yield from nvfp4_on_hopper(profile, hardware)
    yield from capture_sizes(profile)
    yield from api_key(profile)
    yield from variables(profile, profile.value.env, ("env",))
    yield from words_for_switches(profile)
    yield from fork(profile)


def ranks_fit_gpus(profile: Loaded[Profile], hardware: Hardware) -> Iterator[Finding]:
    """The parallel sizes must use all nodes alike and fit their GPUs."""
    value = profile.value
    ranks, gpus = value.ranks, value.nodes * value.gpus
    flag: Loc = ("serve", "tensor-parallel-size")
    if value.gpus > hardware.gpus:
        yield finding(
            "error",
            profile,
            ("gpus",),
            f"{value.gpus} GPUs a node, but {value.hardware} has {hardware.gpus}",
            why="a rank cannot share a GPU",
            hint=f"write {hardware.gpus} or less",
        )
    if ranks % value.nodes:
        yield finding(
            "error",
            profile,
            flag,
            f"{ranks} ranks on {value.nodes} nodes",
            why="every node runs the same number of ranks",
            hint=f"choose parallel sizes whose product is a multiple of {value.nodes}",
        )
    if ranks > gpus:
        yield finding(
            "error",
            profile,
            flag,
            f"{ranks} ranks for {gpus} GPU{'s' * (gpus != 1)} ({value.nodes} × {value.gpus})",
            why="every rank needs a GPU of its own",
            hint=f"choose parallel sizes whose product is {gpus}",
        )
    elif ranks < gpus:
        yield finding(
            "warning",
            profile,
            flag,
            f"{ranks} rank{'s' * (ranks != 1)} for {gpus} GPUs ({value.nodes} × {value.gpus})",
            why=f"{gpus - ranks} stay idle",
            hint=f"choose parallel sizes whose product is {gpus}, or lower `gpus`",
        )


def nvfp4_on_hopper(profile: Loaded[Profile], hardware: Hardware) -> Iterator[Finding]:
    """NVFP4 experts have no native kernels before Blackwell."""
    value = profile.value
    names = [value.model, str(value.speculative.get("model", "")), str(value.serve.get("quantization", ""))]
    hopper = (hardware.capability or "").startswith("9.")
    fp4 = any("nvfp4" in name.lower() or name == "modelopt_fp4" for name in names)
    if hopper and fp4 and "nvfp4-on-hopper" not in value.allow:
        yield finding(
            "error",
            profile,
            ("model",),
            f"NVFP4 experts on {value.hardware}",
            why="Hopper has no FP4 units and would emulate them",
            hint="choose the FP8 checkpoint, or write `allow: [nvfp4-on-hopper]`",
        )


def capture_sizes(profile: Loaded[Profile]) -> Iterator[Finding]:
    """A written CUDA graph size must hold a full decode step with its draft tokens."""
    value = profile.value
    seqs, drafts = value.serve.get("max-num-seqs"), value.speculative.get("num_speculative_tokens", 0)
    largest = _largest_capture(value.serve)
    if not isinstance(seqs, int) or not isinstance(drafts, int) or largest is None:
        return
    key, size = largest
    if size < seqs * (drafts + 1):
        yield finding(
            "warning",
            profile,
            ("serve", *key),
            f"the largest CUDA graph holds {size} tokens",
            why=f"a full step has max-num-seqs × (draft tokens + 1) = {seqs * (drafts + 1)} and runs without one",
            hint=f"write {seqs * (drafts + 1)} or more",
        )


def _largest_capture(serve: Mapping[str, Any]) -> tuple[Loc, int] | None:
    whole = serve.get("compilation-config")
    places: list[tuple[Loc, Any]] = (
        [(("compilation-config", key), size) for key, size in whole.items()] if isinstance(whole, dict) else []
    )
    places += [((key,), size) for key, size in serve.items()]
    for loc, size in places:
        name = str(loc[-1]).removeprefix("compilation-config.").replace("_", "-")
        if name == "max-cudagraph-capture-size" and isinstance(size, int):
            return loc, size
        if name == "cudagraph-capture-sizes" and isinstance(size, list) and size:
            return loc, max(entry for entry in size if isinstance(entry, int))
    return None


def api_key(profile: Loaded[Profile]) -> Iterator[Finding]:
    """An API that other machines reach should ask for a key."""
    host = profile.value.serve.get("host")
    if loopback(host) or profile.value.env.get("VLLM_API_KEY"):
        return
    yield finding(
        "warning",
        profile,
        ("serve", "host"),
        f"the API listens on {host or 'all interfaces'} and asks for no key",
        why="whoever reaches the port can use the model",
        hint="write `host: 127.0.0.1`, or `VLLM_API_KEY: env:VLLM_API_KEY` under env",
    )


def open_routes(profile: Loaded[Profile], api: ApiRoutes) -> Iterator[Finding]:
    """A key guards only some of the paths of an API that other machines reach."""
    host = profile.value.serve.get("host")
    if loopback(host) or not profile.value.env.get("VLLM_API_KEY"):
        return
    served = [route for route in api.left_open(profile.value) if route.kind != "tells"]
    if served:
        yield finding(
            "warning",
            profile,
            ("serve", "host"),
            f"the API listens on {host or 'all interfaces'}, and its key does not guard"
            f" {', '.join(route.path for route in served)}",
            why=f"{served[0].path} {served[0].does} without a key",
            hint="write `host: 127.0.0.1` behind a proxy that lets only /v1 through, or close the port to others",
        )


def loopback(host: object) -> bool:
    """Whether a server that listens there is only reached from its own machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


def variables(file: File, env: Mapping[str, str], loc: Loc) -> Iterator[Finding]:
    """Secrets are references, and Gloo takes exactly one interface."""
    for name, value in env.items():
        if is_secret(name) and value and not is_reference(value):
            yield finding(
                "error",
                file,
                (*loc, name),
                "is a secret written out",
                why="configuration files are read and shared",
                hint=f"write env:{name}, or file:PATH",
            )
        if name == "GLOO_SOCKET_IFNAME" and (value.startswith(("^", "=")) or "," in value):
            yield finding(
                "error",
                file,
                (*loc, name),
                f"{value!r} is not one interface",
                why="Gloo takes one name; lists and `^` are NCCL's",
                hint="write one name of `ip link`",
            )


def words_for_switches(profile: Loaded[Profile]) -> Iterator[Finding]:
    """`no` is text in YAML 1.2; a switch is true or false."""
    for flag, value in profile.value.serve.items():
        if isinstance(value, str) and value.lower() in _WORDS:
            switch = "true" if value.lower() in ("yes", "on") else "false"
            yield finding(
                "warning",
                profile,
                ("serve", flag),
                f"`{value}` is text here",
                why=f"vLLM gets `--{flag} {value}`",
                hint=f"if a switch is meant, write {switch}",
            )


def fork(profile: Loaded[Profile]) -> Iterator[Finding]:
    """A fork is launched as it is."""
    value = profile.value
    if value.release is not None:
        return
    yield finding(
        "note",
        profile,
        ("vllm",),
        "a fork is rendered and launched as it is",
        why="patches and support rows are about releases",
    )
    for key, given in (("required", value.patches.required), ("optional", value.patches.optional)):
        if given:
            yield finding(
                "error",
                profile,
                ("patches", key),
                "patches for a fork",
                why="a fork's sources are not known",
                hint="take them out, or name a release in `vllm`",
            )
    if value.base is None:
        yield finding("error", profile, ("base",), "is missing", why="a fork is an image", hint="add `base: IMAGE`")


def gates_exist(profile: Loaded[Profile], known: Iterable[str]) -> Iterator[Finding]:
    """Every gate that a profile names has a file; `known` are the names of configs/gates/."""
    known = sorted(known)
    for kind in ("trial", "certify"):
        for index, name in enumerate(getattr(profile.value.gates, kind)):
            if name not in known:
                near = nearest(name, known)
                yield finding(
                    "error",
                    profile,
                    ("gates", kind, index),
                    f"there is no gate {name!r}",
                    why="a gate is a file of configs/gates/",
                    hint=f"did you mean {near}?" if near else f"known: {', '.join(known) or 'none'}",
                )
