"""The command `pin`: writes down what a profile's names stand for."""

import click

from launch.cli.context import Context


@click.command()
@click.argument("profile")
@click.pass_obj
def pin(ctx: Context, profile: str) -> None:
    """Resolve PROFILE's base image, model and extra packages to digests and write them to configs/pins.lock.

    Builds then use exactly these. Extra packages are chosen for what the base has, so that is pulled and looked into.
    May be repeated: what still stands for the same is not written again.
    """
    from launch.cli.image import Wanted, choose
    from recipe.config.check import check_profile
    from recipe.image import build, client, engine, pins

    checked = check_profile(ctx.home, profile)
    # Only a look into the base is a build.
    docker = client.find() if checked.profile.value.extras else client.plain()
    engine.check(docker)
    pins.load(ctx.home)  # A file that cannot be read is told before anything is fetched.
    architecture = checked.hardware.value.architecture
    found = pins.resolve(docker, checked.profile, architecture)
    if names := checked.profile.value.extras:
        where = f"{checked.profile.document.where(('extras',))}: extras"
        exact = pins.exact(found.base)
        pins.holds(exact, build.base(docker, exact.reference, architecture, where, ctx.say), checked.profile.name)
        packages = choose(docker, ctx, checked.profile.name, architecture, exact.reference, Wanted(names, where))
        found = found.model_copy(update={"extras": pins.ExtrasPin(names=names, packages=packages)})
    changed = pins.write(ctx.home, checked.profile.name, found)
    if found.base.platform is None:
        ctx.say(f"note: no registry has {found.base.reference}: it is pinned as this engine has it")
    document = {"profile": checked.profile.name, "changed": changed, **found.model_dump(mode="json", by_alias=True)}
    how = "pinned" if changed else "nothing to do, still pinned"
    ctx.emit(document, lambda: f"{how}: {checked.profile.name} on {found.base.platform or found.base.config}")
