"""Computes an image build: the Dockerfile, its labels and tag, and docker's command line. Pure; runs nothing."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recipe.applier.patchset import PatchSet
from recipe.config import paths
from recipe.image import bom, checks, packages
from recipe.image.checks import Answer, Verdict
from recipe.image.client import Client
from recipe.image.inspect import Image
from recipe.image.packages import Package
from recipe.image.reference import named, tag_of

REPOSITORY = "hallmark"
LABEL = "dev.hallmark"
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Compressed documents, which can be read without pulling a layer.
MANIFEST, BOM = f"{LABEL}.manifest", f"{LABEL}.bom"
_OCI = "org.opencontainers.image"
_TEMPLATES = paths.CHECKOUT / "dockerfiles"
# The Dockerfile, and the same one with what the checks said in its labels.
DOCKERFILE, CHECKED = "Dockerfile", "Dockerfile.checked"
# What is installed in a base.
ABOUT = "Dockerfile.about"
# The folder of the context with the wheels of extra packages, and the label that names them.
EXTRAS, EXTRAS_LABEL = "extras", f"{LABEL}.extras"
# The stages that hold the patched tree, and what the checks said and nothing else.
PATCHED, RESULTS = "patched", "results"


@dataclass(frozen=True)
class Build:
    """One image build. `platform`: as docker writes it; `request`: what the checks are asked; `epoch`: seconds, what
    tools take as the image's time; `extras`: wheels that are installed before the patches."""

    profile: str
    tag: str
    base: str
    platform: str
    labels: dict[str, str]
    dockerfile: str
    request: bytes
    epoch: int
    extras: tuple[Package, ...] = ()

    @property
    def architecture(self) -> str:
        return self.platform.partition("/")[2]


def plan(
    profile: str,
    patchset: PatchSet,
    architecture: str,
    reference: str,
    base: Image | None,
    repository: str,
    request: bytes,
    extras: tuple[Package, ...] = (),
) -> Build:
    """Plan the image of one profile on the base image `reference`.

    `base` is what an engine knows of it; without (a dry run) the labels lack its digests. `request` is what the
    checks inside are asked; `extras` are the wheels of `packages.resolve`.

    Errors: HallmarkError when the reference cannot be an image's name.
    """
    labels = _labels(profile, patchset, named(reference), base)
    if extras:
        labels[EXTRAS_LABEL] = packages.label(extras)
    return Build(
        profile=profile,
        tag=tag(repository, profile, patchset.vllm, patchset.sha256),
        base=reference,
        platform=f"linux/{architecture}",
        labels=labels,
        request=request,
        extras=extras,
        dockerfile=_render("Dockerfile.j2", profile=profile, base=reference, labels=labels, extras=bool(extras)),
        # The base's own time: the image is no older than that, and tools that prune by age see nothing strange.
        epoch=base.created if base else 0,
    )


def checked(build: Build, patchset: PatchSet, verdicts: Sequence[Verdict], answer: Answer) -> Build:
    """The same build with what the checks said, PATCHES.json and the bill of materials in its labels."""
    said = {verdict.check: verdict.short for verdict in verdicts}
    title = build.labels[f"{_OCI}.title"]
    labels = {
        **build.labels,
        checks.LABEL: json.dumps(said, ensure_ascii=False, sort_keys=True),
        MANIFEST: bom.packed(json.dumps(answer.manifest, sort_keys=True)),
        BOM: bom.packed(bom.document(title, answer.packages, patchset, answer.manifest)),
    }
    text = _render("Dockerfile.j2", profile=build.profile, base=build.base, labels=labels, extras=bool(build.extras))
    return replace(build, labels=labels, dockerfile=text)


def about(profile: str, architecture: str, reference: str) -> Build:
    """What is built to see what the base `reference` has installed; it makes no image.

    Errors: HallmarkError when the reference cannot be an image's name.
    """
    text = _render("About.j2", profile=profile, base=named(reference))
    return Build(profile, "", reference, f"linux/{architecture}", {}, text, b"", 0)


def tag(repository: str, profile: str, vllm: str, patchset: str) -> str:
    """The tag of a profile's image, which never moves: REPOSITORY:PROFILE-VLLM-PATCHSET8."""
    return f"{repository}:{tag_of(f'{profile}-{vllm}')}-{patchset[:8]}"


def patchset_of(labels: Mapping[str, str]) -> str | None:
    """The patch set (sha256 in hex) that an image says it holds. Anybody can label an image, and folders are called by
    this, so that whatever is no digest counts as nothing."""
    text = labels.get(f"{LABEL}.patchset", "")
    return text if _SHA256.fullmatch(text) else None


def checks_argv(build: Build, client: Client, context: Path, out: Path) -> tuple[str, ...]:
    """Docker's command line for patching and checking; it writes what the checks said into the folder `out`."""
    more = ("--target", RESULTS, "--output", f"type=local,dest={out}", "--file", str(context / DOCKERFILE))
    return _argv(build, client, context, ("build",), more)


def about_argv(build: Build, client: Client, context: Path, out: Path) -> tuple[str, ...]:
    """Docker's command line for a look at what is installed, which it writes into the folder `out`."""
    more = ("--output", f"type=local,dest={out}", "--file", str(context / ABOUT))
    return _argv(build, client, context, ("build",), more)


def rebuild_argv(build: Build, client: Client, context: Path, identity: Path) -> tuple[str, ...]:
    """Docker's command line for patching once more, whatever the cache has."""
    how = ("build", "--load") if client.buildx else ("build",)
    more = ("--no-cache", "--target", PATCHED, "--iidfile", str(identity), "--file", str(context / DOCKERFILE))
    return _argv(build, client, context, how, more)


def build_argv(build: Build, client: Client, context: Path, identity: Path) -> tuple[str, ...]:
    """Docker's command line for the image; it writes the image's digest to the file `identity`.

    No tag is given: it is set when the image was looked at.
    """
    how = ("build", "--load") if client.buildx else ("build",)
    more = ("--iidfile", str(identity), "--file", str(context / CHECKED))
    return _argv(build, client, context, how, more)


def _argv(build: Build, client: Client, context: Path, how: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return (
        client.program,
        *(("buildx",) if client.buildx else ()),
        *how,
        "--progress=plain",
        "--platform",
        build.platform,
        # Nothing is fetched while patching; this also works on engines without a bridge.
        "--network=none",
        "--build-arg",
        f"SOURCE_DATE_EPOCH={build.epoch}",
        *more,
        str(context),
    )


def build_environment(client: Client) -> dict[str, str]:
    """Variables of the build command beside the user's own."""
    if client.buildx:
        # A builder that somebody selected may be one in a container, which has neither the engine's images nor its
        # layers. An attestation would make an index of the image, and its digest another one every time.
        return {"BUILDX_BUILDER": client.context, "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}
    return {"DOCKER_BUILDKIT": "1"}


def _labels(profile: str, patchset: PatchSet, reference: str, base: Image | None) -> dict[str, str]:
    labels = {
        f"{_OCI}.title": f"vLLM {patchset.vllm} for {profile}",
        f"{_OCI}.version": f"{patchset.vllm}-{patchset.sha256[:8]}",
        f"{_OCI}.base.name": reference,
        f"{LABEL}.profile": profile,
        f"{LABEL}.vllm": patchset.vllm,
        f"{LABEL}.patchset": patchset.sha256,
        f"{LABEL}.patches": ",".join(str(patch["id"]) for patch in patchset.patches),
    }
    if base is not None:
        labels[f"{LABEL}.base"] = base.config_digest
        if base.manifest_digest is not None:
            labels[f"{_OCI}.base.digest"] = base.manifest_digest
    return labels


def _render(template: str, **values: object) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["quoted"] = quoted
    return environment.get_template(template).render(values)


def quoted(value: str) -> str:
    """A value as one word of a LABEL line, in which a dollar sign would begin a variable."""
    return json.dumps(value, ensure_ascii=False).replace("$", "\\$")
