"""Which sources a command means: an installed tree, a wheel, or a release; and the errors of the applier as ours."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from packaging.version import InvalidVersion, Version

from recipe.applier import errors as applier
from recipe.applier.patchset import public
from recipe.applier.states import EditPlan, PatchPlan, refusal
from recipe.applier.tree import Sources, Tree
from recipe.catalogue import released, releases, wheels
from recipe.catalogue.wheels import Wheel
from recipe.config.load import Loaded
from recipe.config.models import Profile
from recipe.errors import Busy, Exit, HallmarkError, Mismatch, NeedsOperator, Problem, Refused

_BY_EXIT: dict[int, type[HallmarkError]] = {
    Exit.USAGE: HallmarkError,
    Exit.NOT_DONE: Refused,
    Exit.NEEDS_OPERATOR: NeedsOperator,
    Exit.MISMATCH: Mismatch,
    Exit.BUSY: Busy,
}


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of the applier, which knows no other module, into those of this program."""
    try:
        yield
    except applier.ApplierError as error:
        raise _BY_EXIT[error.exit](error.message, where=error.where, hint=error.hint) from None


def drifted(problems: list[tuple[PatchPlan, EditPlan | None]]) -> Refused:
    """The refusal of a plan that drifts: every problem on a line of its own, nothing was written."""
    error = Refused("")
    lines = [Problem(line) for line in refusal(problems)]
    error.problems = (*lines, Problem("nothing was written", hint="see `hallmark plan` for the state of every patch"))
    return error


def site_packages(folder: Path) -> Path:
    """The site-packages folder of a virtual environment, or the folder itself.

    Errors: HallmarkError when it is no folder, or an environment without exactly one site-packages.
    """
    if not folder.is_dir():
        raise HallmarkError("there is no such folder", where=str(folder), hint="name a virtual environment")
    if not (folder / "pyvenv.cfg").is_file():
        return folder.resolve()
    found = sorted(folder.glob("lib/python3.*/site-packages"))
    if len(found) != 1:
        raise HallmarkError(f"has {len(found)} site-packages folders", where=str(folder), hint="name one of them")
    return found[0].resolve()


def sources(
    profile: Loaded[Profile],
    distribution: str,
    *,
    folder: Path | None = None,
    wheel: Path | None = None,
    version: str | None = None,
) -> Sources:
    """The sources that the options name; without any, the release that the profile names."""
    if folder is not None:
        return Tree(site_packages(folder))
    if wheel is not None:
        return Wheel(wheel)
    wanted = profile.value.vllm if version is None else version
    if not isinstance(wanted, str):
        raise Refused(
            f"{profile.name} runs the fork {wanted.fork!r}, which takes no patches",
            where=profile.document.where(("vllm",)),
        )
    try:
        Version(wanted)
    except InvalidVersion:
        raise HallmarkError(f"{wanted!r} is not a version", where="--vllm", hint="write for example 0.33.0") from None
    listed = {(release.distribution, release.version): release for release in releases.known()}
    if (distribution, wanted) in listed:
        return released.sources(listed[distribution, wanted])
    return wheels.wheel(wanted, distribution)


def release(found: Sources) -> str:
    """The version that these sources are of, without its local part."""
    return public(found.version)


def import_errors(tree: Tree, folder: Path) -> list[str]:
    """Import every patched module with the tree's own interpreter; returns the modules that fail and why.

    Errors: HallmarkError when the folder is no virtual environment and so has no interpreter.
    """
    python = folder / "bin" / "python"
    if not python.exists():
        raise HallmarkError("--imports needs the tree's interpreter", where=str(folder), hint="name the environment")
    wrong = []
    for file in sorted(tree.manifest.files) if tree.manifest else []:
        if not file.endswith(".py"):
            continue
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        done = subprocess.run(
            [str(python), "-B", "-c", f"import {module}"], check=False, capture_output=True, text=True, timeout=600
        )
        if done.returncode:
            wrong.append(f"{file}: does not import: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return wrong
