"""Commands on sources: plan, apply, unapply, verify, relock."""

from pathlib import Path

import click

from launch.cli.context import Context
from launch.cli.given import Given
from recipe.applier import commit, states
from recipe.applier.journal import unfinished
from recipe.applier.plan import plan as decide
from recipe.applier.tree import Tree
from recipe.catalogue import target
from recipe.catalogue.compile import compile_profile
from recipe.config.check import support_findings
from recipe.config.load import load_hardware, load_profile
from recipe.errors import Exit, HallmarkError, Mismatch, Problem


@click.command()
@click.argument("profile")
@click.option("--target", "folder", type=Given(), help="a virtual environment or site-packages folder")
@click.option("--wheel", "file", type=Given(), help="a wheel of vLLM")
@click.option("--vllm", "version", help="a release, fetched when it is not in the cache (default: the profile's)")
@click.option("--diff", is_flag=True, help="print the changes as a unified diff")
@click.option("--check", is_flag=True, help="exit 2 when a patch drifts, or the release cannot run the profile")
@click.pass_obj
def plan(
    context: Context, profile: str, folder: Path | None, file: Path | None, version: str | None, diff: bool, check: bool
) -> int:
    """Say what state every patch of PROFILE has against sources, and what is known about that release on the
    profile's hardware. Changes nothing; may be repeated."""
    loaded = load_profile(context.home, profile)
    if sum(option is not None for option in (folder, file, version)) > 1:
        raise HallmarkError("--target, --wheel and --vllm exclude each other", hint="give one of them")
    distribution = load_hardware(context.home, loaded.value.hardware).value.distribution
    with target.translated():
        sources = target.sources(loaded, distribution, folder=folder, wheel=file, version=version)
        if isinstance(sources, Tree) and (left := unfinished(sources)):
            context.say(f"warning: {left}")
        planned = decide(sources, compile_profile(loaded, target.release(sources)))
    problems = states.refusal(planned.problems())
    findings = support_findings(context.home, loaded, target.release(sources))
    for finding in findings:
        context.say(f"{finding.severity}: {finding}")

    def text() -> str:
        if diff:
            for line in problems:
                context.say(line)
            from recipe.catalogue.diff import unified

            return unified(planned).rstrip("\n")
        return "\n".join(_states(loaded.name, planned, problems))

    document = {"profile": loaded.name, **planned.to_json(), "notes": _notes(planned)}
    document["findings"] = [{"severity": finding.severity, "message": str(finding)} for finding in findings]
    if diff and context.json:
        from recipe.catalogue.diff import unified

        document["diff"] = unified(planned)
    context.emit(document, text)
    refused = bool(problems) or any(finding.severity == "error" for finding in findings)
    return int(Exit.NOT_DONE if check and refused else Exit.OK)


@click.command()
@click.argument("profile")
@click.option("--target", "folder", type=Given(), required=True, help="a virtual environment or site-packages folder")
@click.pass_obj
def apply(context: Context, profile: str, folder: Path) -> None:
    """Patch the tree at --target with the patches of PROFILE: all of them or none. Applying twice changes nothing."""
    loaded = load_profile(context.home, profile)
    with target.translated():
        tree = Tree(target.site_packages(folder))
        with commit.locked(tree):
            before = tree.manifest.patchset if tree.manifest else None
            planned = decide(tree, compile_profile(loaded))
            problems = planned.problems()
            if problems:
                raise target.drifted(problems)
            written = commit.apply(tree, planned)
    document = {"profile": loaded.name, **planned.to_json(), "written": written}
    done = f"{len(written)} files written" if written else "nothing to do: the tree carries this patch set already"
    instead = f" in place of {before[:8]}" if before and before != planned.patchset.sha256 else ""
    context.emit(document, lambda: f"{done} (patch set {planned.patchset.sha256[:8]}{instead})")


@click.command()
@click.option("--target", "folder", type=Given(), required=True, help="a virtual environment or site-packages folder")
@click.pass_obj
def unapply(context: Context, folder: Path) -> None:
    """Undo what apply did to the tree at --target, to the byte. Undoing twice changes nothing."""
    with target.translated():
        tree = Tree(target.site_packages(folder))
        with commit.locked(tree):
            restored = commit.unapply(tree)
    done = f"{len(restored)} files restored" if restored else "nothing to do: the tree is not patched"
    context.emit({"restored": restored}, lambda: done)


@click.command()
@click.option("--target", "folder", type=Given(), required=True, help="a virtual environment or site-packages folder")
@click.option("--imports", is_flag=True, help="also import the patched modules with the tree's own interpreter")
@click.pass_obj
def verify(context: Context, folder: Path, imports: bool) -> None:
    """Compare the tree at --target with what apply recorded. Changes nothing."""
    with target.translated():
        tree = Tree(target.site_packages(folder))
        reasons = commit.verify(tree)
    if imports and not reasons:
        reasons = target.import_errors(tree, folder)
    if reasons:
        raise _Wrong(reasons)
    files = len(tree.manifest.files) if tree.manifest else 0
    context.emit({"valid": True, "reasons": []}, lambda: f"{files} files are as recorded")


@click.command()
@click.option("--check", is_flag=True, help="write nothing; exit 4 when a file is not what the wheels give")
@click.pass_obj
def relock(context: Context, check: bool) -> None:
    """Write the sha256 of every patched file before and after, for every listed release. May be repeated."""
    from recipe.catalogue.relock import relock as harvest

    changed = harvest(context.home, context.say, check=check)
    if check and changed:
        error = Mismatch("")
        error.problems = tuple(Problem("is stale", file, "run hallmark relock") for file in changed)
        raise error
    done = "nothing to do: baselines and patches.lock are up to date"
    context.emit({"written": changed}, lambda: "\n".join(changed) or done)


class _Wrong(Mismatch):
    def __init__(self, reasons: list[str]) -> None:
        super().__init__(reasons[0])
        self.problems = tuple(Problem(reason) for reason in reasons)


def _notes(planned: states.Plan) -> dict[str, str]:
    """What the patches that are or would be applied do not do, by patch."""
    noted = {patch["id"]: patch["note"] for patch in planned.patchset.patches if "note" in patch}
    working = [patch.id for patch in planned.patches if patch.state in (states.PENDING, states.APPLIED)]
    return {id: noted[id] for id in working if id in noted}


def _states(profile: str, planned: states.Plan, problems: list[str]) -> list[str]:
    width = max((len(patch.id) for patch in planned.patches), default=0)
    lines = [f"{profile} on vLLM {planned.patchset.vllm}, patch set {planned.patchset.sha256[:8]}"]
    noted = _notes(planned)
    for patch in planned.patches:
        lines.append(f"  {patch.id:{width}}  {patch.state}")
        if patch.id in noted:
            lines.append(f"  {'':{width}}  note: {noted[patch.id]}")
    return lines + [f"  {line}" for line in problems]
