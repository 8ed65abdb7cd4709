"""The command `pin`: writes down what a profile's names stand for."""

import click

from launch.cli.context import Context


@click.command()
@click.argument("profile")
@click.pass_obj
def pin(ctx: Context, profile: str) -> None:
    """Resolve PROFILE's base image and model to digests and write them to configs/pins.lock.

    Builds then use exactly these. May be repeated: what still stands for the same is not written again.
    """
    from recipe.config.check import check_profile
    from recipe.image import client, engine, pins

    checked = check_profile(ctx.home, profile)
    docker = client.find()
    engine.check(docker)
    known = pins.load(ctx.home)
    found = pins.resolve(docker, checked.profile, checked.hardware.value.architecture)
    changed = pins.write(known, checked.profile.name, found)
    if found.base.platform is None:
        ctx.say(f"note: no registry has {found.base.reference}: it is pinned as this engine has it")
    document = {"profile": checked.profile.name, "changed": changed, **found.model_dump(by_alias=True)}
    how = "pinned" if changed else "nothing to do, still pinned"
    ctx.emit(document, lambda: f"{how}: {checked.profile.name} on {found.base.platform or found.base.config}")
