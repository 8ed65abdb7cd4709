"""What a build asks the checks inside the image, and what their answers mean for the image."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recipe.applier.patchset import PatchSet
from recipe.config.check import CheckedProfile
from recipe.config.flags import flags
from recipe.config.models import Hardware, Profile, Support
from recipe.config.rules import is_reference
from recipe.config.support import matching

PASS = "pass"
LABEL = "dev.hallmark.checks"
_MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}
# Nothing is looked up while the command line is read, and vLLM's log is not what a build is about.
_QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}


@dataclass(frozen=True)
class Verdict:
    """What one check said. `verdict`: pass, fail or skipped; `detail`: what was seen, or why it was skipped."""

    check: str
    verdict: str
    detail: str

    @property
    def short(self) -> str:
        """`pass`, or `skipped: REASON`."""
        return self.verdict if self.verdict == PASS else f"{self.verdict}: {self.detail}"


@dataclass(frozen=True)
class Answer:
    """All that comes back: the verdicts, the installed packages (name, version, licence), PATCHES.json, and the
    files that the build added to its base, by their paths."""

    verdicts: tuple[Verdict, ...]
    packages: list[dict[str, str]]
    manifest: dict[str, Any]
    files: dict[str, bytes]


def request(checked: CheckedProfile, support: Support, patchset: PatchSet, extras: Iterable[str] = ()) -> bytes:
    """The question as JSON, in a form that only changes when the answer may. `extras`: packages that were added."""
    profile, hardware = checked.profile.value, checked.hardware.value
    document = checked.profile.document
    asked = [
        {"name": flag, "words": words, "where": f"{document.where(('serve', flag))}: serve.{flag}"}
        for flag, value in profile.serve.items()
        if (words := flags({flag: value}))
    ]
    if profile.nodes > 1:
        asked.append(
            {"name": "nnodes", "words": _several(profile.nodes), "where": f"{document.where(('nodes',))}: nodes"}
        )
    return json.dumps(
        {
            "machine": _MACHINES[hardware.architecture],
            "device": hardware.device,
            "capability": _capability(hardware),
            "gpus": profile.gpus,
            "model": profile.model,
            "flags": asked,
            "environment": {**{k: v for k, v in profile.env.items() if not is_reference(v)}, **_QUIET},
            "compiles": _compiles(profile, hardware),
            "deepgemm": hardware.device == "cuda" and "deepseek-v4" in profile.model.lower(),
            "pins": support.pins(profile.release or ""),
            "patchset": patchset.sha256,
            "extras": sorted(extras),
            "patches": {
                id: f"{document.where(('patches', kind, number))}: patches.{kind}"
                for kind, ids in (("required", profile.patches.required), ("optional", profile.patches.optional))
                for number, id in enumerate(ids)
            },
        },
        indent=1,
    ).encode()


def read(folder: Path) -> Answer:
    """What the checks wrote. Errors: OSError, ValueError, KeyError when they wrote something else."""
    found = {name: json.loads((folder / f"{name}.json").read_bytes()) for name in ("checks", "packages", "patches")}
    verdicts = tuple(Verdict(one["check"], one["verdict"], one["detail"]) for one in found["checks"])
    layer = folder / "files"
    files = {f"/{path.relative_to(layer)}": path.read_bytes() for path in sorted(layer.rglob("*")) if path.is_file()}
    return Answer(verdicts, found["packages"], found["patches"], files)


def support_verdict(checked: CheckedProfile, support: Support) -> Verdict:
    """The support rows are looked at before a build begins: a profile that one of them refuses gets no build."""
    rows = [row.id for row in matching(checked.profile.value, checked.hardware.value, support)]
    return Verdict("support", PASS, f"rows that concern this profile: {', '.join(rows)}" if rows else "no row")


def _several(nodes: int) -> list[str]:
    """What the head of a group of several nodes is given by the cluster file, with addresses that stand for them."""
    return ["--nnodes", str(nodes), "--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", "29501"]


def _capability(hardware: Hardware) -> list[int] | None:
    return [int(part) for part in hardware.capability.split(".")] if hardware.capability else None


def _compiles(profile: Profile, hardware: Hardware) -> str | None:
    if hardware.device == "cuda":
        return "Triton and the kernels that are built on first use need one"
    if profile.serve.get("enforce-eager") is True or profile.env.get("TORCHDYNAMO_DISABLE") == "1":
        return None
    return "torch.compile builds code for the CPU while it serves"
