"""The command `image`: builds the patched image of a profile."""

from typing import Any

import click

from launch.cli.context import Context
from recipe.catalogue.compile import compile_profile
from recipe.config.check import check_profile
from recipe.config.load import Loaded, load_support
from recipe.config.models import Profile
from recipe.errors import HallmarkError
from recipe.image import build, checks, client, context, engine, inspect
from recipe.image import plan as planning


@click.command()
@click.argument("profile")
@click.option("--base", metavar="REF", help="another base image than the profile's own")
@click.option(
    "--push", "repository", metavar="REPO", help="a registry's repository to name the image in and push it to"
)
@click.option("--dry-run", is_flag=True, help="print the Dockerfile; asks no engine, builds nothing")
@click.pass_obj
def image(ctx: Context, profile: str, base: str | None, repository: str | None, dry_run: bool) -> None:
    """Build PROFILE's image: its base with all patches applied and verified, or no image at all.

    May be repeated: what has not changed is not built again, and a tag never moves.
    """
    checked = check_profile(ctx.home, profile)
    for finding in checked.findings:
        ctx.say(f"{finding.severity}: {finding}")
    loaded, architecture = checked.profile, checked.hardware.value.architecture
    patchset = compile_profile(loaded)
    if loaded.value.extras:
        where = loaded.document.where(("extras",))
        ctx.say(f"note: {where}: extras: the base image must have {', '.join(loaded.value.extras)}; a build adds none")
    support = load_support(ctx.home).value
    asked = checks.request(checked, support, patchset)
    reference, where = _base(loaded, base)
    into = repository or planning.REPOSITORY
    if dry_run:
        planned = planning.plan(loaded.name, patchset, architecture, reference, None, into, asked)
        ctx.emit(_document(planned, patchset.sha256, None, None), lambda: planned.dockerfile.rstrip("\n"))
        return
    docker = client.find()
    engine.check(docker)
    on = build.base(docker, reference, architecture, where, ctx.say)
    planned = planning.plan(loaded.name, patchset, architecture, reference, on, into, asked)
    folder = context.write(planned, patchset)
    made = inspect.image(docker, planned.tag)
    if made is not None and context.built(folder, planned.tag) == made.config_digest:
        ctx.say(f"nothing has changed since {planned.tag} was built and checked: no build")
    else:
        said = (checks.support_verdict(checked, support), *build.check(docker, planned, folder, ctx.say))
        planned = planning.checked(planned, said)
        context.write_checked(planned, folder)
        made = build.build(docker, planned, on, folder, ctx.say)
        context.write_built(folder, planned.tag, made.config_digest)
    for reason in checks.unverified(made.labels):
        ctx.say(f"warning: the image cannot be certified: check {reason}")
    digest = build.push(docker, planned.tag, ctx.say) if repository else None
    ctx.emit(_document(planned, patchset.sha256, made, digest), lambda: f"{planned.tag}\n{made.config_digest}")


def _base(profile: Loaded[Profile], given: str | None) -> tuple[str, str]:
    """The base image, and the place that names it."""
    if given is not None:
        return given, "--base"
    where = profile.document.where(("base",))
    if profile.value.base is None:
        raise HallmarkError(f"base: {profile.name} names no base image", where=where, hint="add it, or give --base REF")
    return profile.value.base, where


def _document(
    planned: planning.Build, patchset: str, made: inspect.Image | None, manifest: str | None
) -> dict[str, Any]:
    return {
        "profile": planned.profile,
        "image": planned.tag,
        "config_digest": made.config_digest if made else None,
        "manifest_digest": manifest,
        "patchset": patchset,
        "labels": made.labels if made else planned.labels,
    }
