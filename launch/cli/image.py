"""The command `image`: builds the patched image of a profile."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import click

from launch.cli.context import Context
from recipe.applier.patchset import PatchSet
from recipe.catalogue import relock
from recipe.catalogue.compile import compile_profile
from recipe.config.check import check_profile
from recipe.config.load import Loaded, load_support
from recipe.config.models import Profile
from recipe.errors import HallmarkError
from recipe.image import build, checks, client, context, engine, given, inspect, leaks, packages, pins, reference, said
from recipe.image import plan as planning
from recipe.image.packages import Package


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
    place = planning.REPOSITORY if repository is None else reference.pushed(repository, "--push")
    order = Order.of(ctx, profile, base, place)
    if dry_run:
        planned = order.plan(None, order.pinned_extras or ())
        if order.wanted.extras and order.pinned_extras is None:
            ctx.say(f"note: {order.wanted.where}: not pinned, so the step that installs them is not known yet")
        ctx.emit(_document(planned, order.patchset.sha256, None, None), lambda: planned.dockerfile.rstrip("\n"))
        return
    docker = client.find()
    engine.check(docker)
    on = order.base(docker, ctx)
    planned = order.plan(on, order.extras(docker, ctx))
    folder = context.write(planned, order.held(ctx))
    made = inspect.image(docker, planned.tag)
    if made is not None and made.config_digest in context.built(folder, planned.tag):
        ctx.say(f"nothing has changed since {planned.tag} was built and checked: no build")
    else:
        leaks.refuse_base(docker, on, order.secrets, ctx.say)
        answer = build.check(docker, planned, folder, ctx.say)
        planned = planning.checked(planned, order.patchset, (order.support, *answer.verdicts), answer)
        context.write_checked(planned, folder)

        def guard(image: inspect.Image) -> None:
            leaks.refuse(docker, image, answer.files, order.secrets)

        made = build.build(docker, planned, on, folder, ctx.say, guard)
        context.write_built(folder, planned.tag, made.config_digest)
    for reason in said.unverified(made.labels):
        ctx.say(f"warning: the image cannot be certified: check {reason}")
    digest = None if repository is None else build.publish(docker, planned.tag, made, ctx.say)
    ctx.emit(_document(planned, order.patchset.sha256, made, digest), lambda: f"{planned.tag}\n{made.config_digest}")


@dataclass(frozen=True)
class Order:
    """What a profile asks of a build, before an engine is asked.

    `where` is the place that names the base; `pinned_extras` are wheels, None when they are not pinned; `request` asks
    the checks about an image that got packages of these names; `secrets` are values that must not be in the image, by
    their names."""

    profile: str
    patchset: PatchSet
    distribution: str
    architecture: str
    pinned: pins.Base
    pinned_extras: tuple[Package, ...] | None
    where: str
    repository: str
    request: Callable[[list[str]], bytes]
    wanted: "Wanted"
    support: checks.Verdict
    secrets: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, ctx: Context, profile: str, base: str | None, repository: str) -> "Order":
        """Load and check the profile, compile its patches. Errors: what `check_profile` and `compile_profile` raise."""
        checked = check_profile(ctx.home, profile)
        for finding in checked.findings:
            ctx.say(f"{finding.severity}: {finding}")
        loaded = checked.profile
        patchset = compile_profile(loaded)
        support = load_support(ctx.home).value
        reference, where = _base(loaded, base)
        # What was pinned on one base says nothing about another.
        known = pins.load(ctx.home) if base is None else None
        return cls(
            profile=loaded.name,
            patchset=patchset,
            distribution=checked.hardware.value.distribution,
            architecture=checked.hardware.value.architecture,
            pinned=pins.base(known, loaded.name, reference) if known else pins.Base(reference, None),
            pinned_extras=pins.extras(known, loaded.name, loaded.value.extras) if known else None,
            where=where,
            repository=repository,
            request=lambda extras: checks.request(checked, support, patchset, extras),
            wanted=Wanted(loaded.value.extras, f"{loaded.document.where(('extras',))}: extras"),
            support=checks.support_verdict(checked, support),
            secrets=given.known(loaded.value.env),
        )

    def held(self, ctx: Context) -> PatchSet:
        """The patch set with its lock. Errors: those of `relock.held`."""
        return relock.held(self.patchset, self.distribution, ctx.say)

    def base(self, docker: client.Client, ctx: Context) -> inspect.Image:
        """The base image on this engine. Errors: what `build.base` raises; Refused when it is not the pinned one."""
        found = build.base(docker, self.pinned.reference, self.architecture, self.where, ctx.say)
        pins.holds(self.pinned, found, self.profile)
        if self.pinned.config is None:
            ctx.say(f"note: the base is not pinned, it is {found.config_digest} now — hallmark pin {self.profile}")
        return found

    def extras(self, docker: client.Client, ctx: Context) -> tuple[Package, ...]:
        """The wheels of the profile's extras: as pinned, else chosen now for this base.

        Errors: those of `choose`.
        """
        if self.pinned_extras is not None or not self.wanted.extras:
            return self.pinned_extras or ()
        found = choose(docker, ctx, self.profile, self.architecture, self.pinned.reference, self.wanted)
        ctx.say(f"note: the extra packages are not pinned, they are {_named(found)} now — hallmark pin {self.profile}")
        return found

    def plan(self, on: inspect.Image | None, extras: tuple[Package, ...]) -> planning.Build:
        """The build on this base with these extra packages; without a base (a dry run) the labels lack its digests."""
        return planning.plan(
            self.profile,
            self.patchset,
            self.architecture,
            self.pinned.reference,
            on,
            self.repository,
            self.request([it.name for it in extras if it.name != packages.INSTALLER]),
            extras,
        )


@dataclass(frozen=True)
class Wanted:
    """The extras of vLLM that a profile names, and where."""

    extras: tuple[str, ...]
    where: str


def choose(
    docker: client.Client, ctx: Context, profile: str, architecture: str, reference: str, wanted: Wanted
) -> tuple[Package, ...]:
    """Look what the base has installed, and choose the wheels of a profile's extras for it.

    Errors: those of `build.about` and `packages.resolve`.
    """
    planned = planning.about(profile, architecture, reference)
    about = build.about(docker, planned, context.write_about(planned), ctx.say)
    return packages.resolve(wanted.extras, about, packages.fetcher(about), wanted.where)


def _named(extras: tuple[Package, ...]) -> str:
    names = [f"{it.name} {it.version}" for it in extras if it.name != packages.INSTALLER]
    return ", ".join(names) or "none, the base has them"


def _base(profile: Loaded[Profile], given: str | None) -> tuple[str, str]:
    """The base image, and the place that names it."""
    if given is not None:
        return reference.named(given, "--base"), "--base"
    where = profile.document.where(("base",))
    if profile.value.base is None:
        raise HallmarkError(f"base: {profile.name} names no base image", where=where, hint="add it, or give --base REF")
    return reference.named(profile.value.base, where), where


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
        **({} if made else {"dockerfile": planned.dockerfile}),
    }
