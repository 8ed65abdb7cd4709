"""What a cluster's engine runs, by its kind: found for a profile, found again for a revision, looked for in advance."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from launch.engines.rendered import with_files
from launch.group.transition import Generation
from launch.ledger.history import Revision
from launch.ledger.pinned import pulled
from launch.ledger.work import Work
from launch.nodes import environment, image, reach
from launch.nodes.environment import Environment
from launch.nodes.image import StagedImage
from launch.nodes.preflight.run import survey
from launch.nodes.preflight.site import Old, Site, plan_ports
from launch.nodes.pulled import PulledImage
from launch.nodes.staging import Staging
from launch.plan.group import GroupPlan, Subject, plan_group
from launch.plan.place import Place
from recipe.applier.patchset import PatchSet
from recipe.catalogue.compile import compile_profile
from recipe.config.check import Checked
from recipe.config.load import Loaded, venv_folder
from recipe.config.models import Cluster, Hardware, Profile
from recipe.errors import HallmarkError
from recipe.image.plan import LABEL, REPOSITORY, patchset_of, tag
from recipe.image.reference import Reference, repository


def named(profile: Loaded[Profile], cluster: Loaded[Cluster], reference: str | None) -> Subject:
    """What is run, by name only: the image `reference` when it is given, else what the profile's patch set is called.

    Errors: a ConfigError for a patch that does not exist; an empty name; an image for the process engine.
    """
    if reference is not None and not reference.strip():
        # Such as of a variable that is not set in the shell; the bare base image is not what was meant.
        raise HallmarkError("names no image", where="--image", hint="write its name, or leave --image out")
    value = profile.value
    compiled = compile_profile(profile) if value.release else None
    patchset = compiled.sha256 if compiled else None
    if cluster.value.bare:
        if reference is not None or compiled is None:
            raise HallmarkError(
                f"the {cluster.value.engine} engine runs a patched virtual environment here, not an image",
                where=cluster.document.where(("engine",)),
                hint="leave --image out and choose a profile with a release, or choose --engine docker",
            )
        venv = venv_folder(cluster)
        assert venv is not None, "the rules of engines without images ask for paths.venv"
        # Before it is installed the digest of the virtual environment, which ends the folder's name, is not known.
        made = environment.describe(venv, compiled).folder if venv.is_dir() else environment.unmade(compiled)
        return Subject("env", str(made), patchset, str(venv))
    if reference is None and patchset is not None:
        reference = tag(cluster.value.registry or REPOSITORY, profile.name, str(value.release), patchset)
    chosen, where = (reference, "--image") if reference else (str(value.base), profile.document.where(("base",)))
    if chosen.startswith("-"):
        raise HallmarkError(f"{chosen!r} is an option, not an image", where=where, hint="write an image's name")
    return Subject("image", chosen, patchset)


def planned(checked: Checked, subject: Subject, home: Path, certificate: str | None = None) -> GroupPlan:
    """The whole plan, with the files of its engine. `certificate`: the sha256 (hex) of the one about the image.

    Errors: HallmarkError for what the engine cannot do.
    """
    # The command with which a job judges its own group; this checkout must be where jobs run, too.
    judge = [sys.executable, "-m", "launch.cli.in_job", "--home", str(home)]
    return with_files(plan_group(checked.profile, checked.cluster, subject), checked, judge, certificate)


@dataclass(frozen=True)
class Found:
    """What is run, looked at: with its digest, the way to put it in place, and what it was patched with, as far as that
    is known: the ids, and the patch set itself."""

    subject: Subject
    staging: Staging
    patches: list[str] | None
    patchset: PatchSet | None


def found(checked: Checked, reference: str | None) -> Found:
    """Look at what is run.

    Errors: as `named`; HallmarkError without the virtual environment; Refused without the image.
    """
    profile, cluster, hardware = checked.profile, checked.cluster, checked.hardware
    compiled = compile_profile(profile) if profile.value.release else None
    if cluster.value.bare:
        subject = named(profile, cluster, reference)
        assert compiled is not None, "the process engine runs patched releases only"
        made = environment.describe(Path(str(subject.venv)), compiled)
        subject = replace(subject, reference=str(made.folder), digest=made.digest)
        return Found(subject, made, _ids(compiled), compiled)
    subject = named(profile, cluster, reference)
    staging: Staging
    if cluster.value.engine == "slurm":
        by_digest, here = pulled(checked, subject)
        digest = here.config_digest.removeprefix("sha256:")
        subject, staging = replace(subject, reference=by_digest), PulledImage(by_digest, digest)
    else:
        registry = registry_of(cluster)
        where = None if reference is None else "--image"
        here = image.resolve(subject.reference, where, registry, hardware.value.architecture)
        digest = here.config_digest.removeprefix("sha256:")
        places = [Place(node.name, node.address, node.docker_host) for node in cluster.value.nodes]
        staging = image.staged(subject.reference, digest, places, registry)
    # The image itself says what was patched, also when it was built from other files than are here now.
    subject = replace(subject, patchset=patchset_of(here.labels), digest=digest)
    listed = here.labels.get(f"{LABEL}.patches")
    patches = None if listed is None else [it for it in listed.split(",") if it]
    same = compiled if compiled is not None and compiled.sha256 == subject.patchset else None
    return Found(subject, staging, patches, same)


def _ids(patchset: PatchSet) -> list[str]:
    return [str(patch["id"]) for patch in patchset.patches]


def registry_of(cluster: Loaded[Cluster]) -> Reference | None:
    """The repository that the cluster names. Errors: HallmarkError when it is none."""
    text = cluster.value.registry
    return (
        repository(text, cluster.document.where(("registry",))) if text and cluster.value.engine == "docker" else None
    )


def recorded(work: Work, revision: Revision, plan: GroupPlan) -> Staging:
    """What a revision ran. Errors: Mismatch when its records are missing or were edited."""
    subject = revision.subject
    if subject["kind"] == "image" and work.cluster.value.engine == "slurm":
        return PulledImage(subject["reference"], subject["digest"])
    if subject["kind"] == "image":
        places = (rank.place for rank in plan.ranks)
        registry = registry_of(work.cluster)
        return image.staged(subject["reference"], subject["digest"], places, registry, revision.image)
    patchset = work.store.load_patchset(subject["patchset"])
    return Environment(Path(subject["reference"]), subject["digest"], patchset, Path(subject["venv"]))


def surveyed(
    work: Work, plan: GroupPlan, hardware: Loaded[Hardware], staging: Staging | None, old: Generation | None
) -> Site:
    """What there is to know of the nodes of a plan before it is launched, while `old` still runs.

    Errors: Unreachable when a node or its engine does not answer.
    """
    running = None
    if old is not None:
        alive = any(rank.alive for rank in work.ranks(old))
        running = Old(old.mark, frozenset(plan_ports(old.plan).values()), alive)
    lacking: dict[str, int | None] = {}
    variables = None
    if isinstance(staging, StagedImage):
        places = staging.lacking()
        # What those nodes will get is looked at here.
        size, variables = (staging.size(), staging.variables()) if places else (None, None)
        missing = reach.each(lambda place: staging.coming(place, size) if size else None, places)
        lacking = {place.name: count for place, count in zip(places, missing, strict=True)}
    # Who never launched has no mark, and looking makes none.
    owner = work.store.owner() if (work.store.folder / "id").exists() else ""
    return survey(plan, hardware, work.cluster, owner, running, lacking, variables)
