"""Commands on patched images: list, show, check, prune."""

from dataclasses import replace
from typing import Any

import click

from launch.cli.columns import columns, printable
from launch.cli.context import Context
from recipe.errors import HallmarkError, Mismatch, Refused

_UNKNOWN = "?"


@click.group()
def images() -> None:
    """Patched images: what is in them, whether they can be built again, and which of them nothing needs."""


@images.command("list")
@click.pass_obj
def list_(ctx: Context) -> None:
    """Show the patched images of the engine that docker talks to. Changes nothing."""
    from recipe.image import checks, client, inspect, said
    from recipe.image.plan import LABEL

    docker = client.plain()
    rows, listed = [["IMAGE", "PROFILE", "VLLM", "PATCHSET", "CHECKS", "DIGEST"]], []
    for tag, digest in sorted(inspect.tagged(docker, f"{LABEL}.patchset").items()):
        found = inspect.image(docker, digest)
        if found is None:
            continue  # Removed since it was listed.
        label = {key: found.labels.get(f"{LABEL}.{key}", _UNKNOWN) for key in ("profile", "vllm", "patchset")}
        try:
            missing = said.unverified(found.labels)
            verdict = f"{len(missing)} skipped" if missing else "pass" if checks.LABEL in found.labels else "none"
        except Mismatch as error:
            missing, verdict = [str(error)], "not readable"
        listed.append({"image": tag, "config_digest": digest, **label, "unverified": missing})
        row = [tag, label["profile"], label["vllm"], label["patchset"][:8], verdict, digest[7:19]]
        rows.append([printable(cell) for cell in row])
    ctx.emit({"images": listed}, lambda: columns(rows) if listed else "no patched image on this engine")


@images.command()
@click.argument("reference", metavar="REF")
@click.option("--architecture", metavar="ARCH", help="which image of a list in a registry: arm64 or amd64")
@click.pass_obj
def show(ctx: Context, reference: str, architecture: str | None) -> None:
    """Show what REF says about itself: patches, checks, packages. Pulls no layer, changes nothing.

    The engine's own image is taken when it has one of that name, else the registry's.
    """
    from recipe.image import client, inspect, remote
    from recipe.image.reference import named

    named(reference)
    docker = client.plain()
    found, where = inspect.image(docker, reference), "engine"
    if found is None:
        there = remote.image(reference, architecture)
        if there is None:
            raise HallmarkError("neither this engine nor the registry has such an image", where=reference)
        found, where = there.image, "registry"
    try:
        document = _document(reference, where, found)
    except Mismatch as error:
        error.problems = tuple(replace(it, where=reference) for it in error.problems)
        raise
    ctx.emit(document, lambda: "\n".join(map(printable, _lines(document))))


@images.command()
@click.argument("profile")
@click.option("--base", metavar="REF", help="another base image than the profile's own")
@click.pass_obj
def check(ctx: Context, profile: str, base: str | None) -> None:
    """Build PROFILE's patch layer once more, without the cache, and compare it with the image that has its tag.

    Nothing is tagged or kept. Ends with 4 when the two differ.
    """
    from launch.cli.image import Order
    from recipe.image import build, client, context, engine, inspect
    from recipe.image.plan import REPOSITORY

    order = Order.of(ctx, profile, base, REPOSITORY)
    docker = client.find()
    engine.check(docker)
    on = order.base(docker, ctx)
    planned = order.plan(on, order.extras(docker, ctx))
    there = inspect.image(docker, planned.tag)
    if there is None:
        raise Refused("is not on this engine", where=planned.tag, hint=f"hallmark image {profile}")
    layers = build.rebuilt(docker, planned, context.write(planned, order.held(ctx)), ctx.say)
    if layers != there.layers:
        raise Mismatch(
            f"the image's last layer is {there.layers[-1]}, built again it is {layers[-1]}",
            where=planned.tag,
            hint="look at who made this image, and from what",
        )
    document = {"image": planned.tag, "config_digest": there.config_digest, "layer": layers[-1], "same": True}
    ctx.emit(document, lambda: f"{planned.tag}: built again, its patch layer is the same: {layers[-1]}")


@images.command()
@click.argument("clusters", metavar="[CLUSTER]...", nargs=-1)
@click.option("--dry-run", is_flag=True, help="say what would be removed; removes nothing, takes no lock")
@click.pass_obj
def prune(ctx: Context, clusters: tuple[str, ...], dry_run: bool) -> None:
    """Remove the patched images that no history, no certificate and no container refers to.

    From this machine's engine, and from those of the nodes of each CLUSTER. What somebody gave a name of their own
    stays, and so does what Hallmark did not build. May be repeated.
    """
    from launch.ledger.prune import prune as remove

    found = remove(ctx.home, clusters, dry_run=dry_run, say=ctx.say)
    document = {
        "dry_run": dry_run,
        "removed": [choice.to_json() for choice in found.removed],
        "kept": [choice.to_json() for choice in found.kept],
    }

    def text() -> str:
        what = "would be removed" if dry_run else "removed"
        lines = [f"{what}: {it.image.digest} on {it.image.place.name}" for it in found.removed]
        lines += [f"stays: {it.image.digest} on {it.image.place.name}: {', '.join(it.reasons)}" for it in found.kept]
        return "\n".join(lines if found.removed else [*lines, "nothing to do: nothing is here that nothing refers to"])

    ctx.emit(document, text)


def _document(reference: str, where: str, found: Any) -> dict[str, Any]:
    from recipe.image import checks, said
    from recipe.image.plan import BOM, LABEL, MANIFEST

    labels = dict(found.labels)
    if f"{LABEL}.patchset" not in labels:
        raise HallmarkError("was not built by Hallmark: it has no patch set", where=reference)
    read = {"checks": said.verdicts(labels), "manifest": said.manifest(labels), "bom": said.materials(labels)}
    for label in (checks.LABEL, MANIFEST, BOM):
        labels.pop(label, None)
    return {
        "reference": reference,
        "where": where,
        "config_digest": found.config_digest,
        "manifest_digest": found.manifest_digest,
        "architecture": found.architecture,
        "layers": list(found.layers),
        "labels": labels,
        **read,
    }


def _lines(document: dict[str, Any]) -> list[str]:
    lines = [f"{document['reference']} ({document['where']}, {document['architecture']})"]
    lines += [f"  {key}: {document[key]}" for key in ("config_digest", "manifest_digest") if document[key]]
    lines += [f"  {key}: {value}" for key, value in sorted(document["labels"].items())]
    if document["manifest"]:
        states = {id: patch["state"] for id, patch in document["manifest"]["patches"].items()}
        lines += ["patches:", *(f"  {id}: {state}" for id, state in states.items())]
    lines += ["checks:", *(f"  {check}: {verdict}" for check, verdict in document["checks"].items())]
    if document["bom"]:
        lines.append(f"packages: {len(document['bom']['components'])} (all of them with --json)")
    return lines
