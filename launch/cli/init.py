"""The command `init`: a cluster file by asking and by looking."""

import sys
from dataclasses import replace
from pathlib import Path

import click

from launch.cli.context import Context
from launch.cli.given import Given
from recipe.config.load import load_profile
from recipe.errors import HallmarkError


@click.command()
@click.argument("name")
@click.option("--node", "addresses", multiple=True, metavar="[NAME=]ADDRESS", help="a machine, head first; repeat it")
@click.option("--profile", metavar="P", help="the profile that it runs")
@click.option("--engine", type=click.Choice(["docker", "compose"]), default="docker", show_default=True)
@click.option("--fabric", metavar="NETWORK", help="the network between the nodes, such as 192.168.177.0/24")
@click.option("--models", metavar="DIR", help="the folder of model folders on the nodes")
@click.option("--state", metavar="DIR", default="~/.hallmark", show_default=True, help="the folder of records there")
@click.option("--api-port", type=click.IntRange(1024, 65535), default=8000, show_default=True)
@click.option("--master-port", type=click.IntRange(1, 65535), default=29501, show_default=True)
@click.option("--out", type=Given(), metavar="FILE", help="another place than configs/clusters/NAME.yaml")
@click.option("--yes", is_flag=True, help="ask nothing: take what was found (also when this is not a terminal)")
@click.pass_obj
def init(
    context: Context,
    name: str,
    addresses: tuple[str, ...],
    profile: str | None,
    engine: str,
    fabric: str | None,
    models: str | None,
    state: str,
    api_port: int,
    master_port: int,
    out: Path | None,
    yes: bool,
) -> None:
    """Write the file of a cluster NAME: asks for its machines, looks at them over SSH, and proposes the rest.

    Never overwrites a file.
    """
    from launch.ledger import init as ledger

    asks = not yes and sys.stdin.isatty()
    ledger.called_so(name)
    path = out or context.home / "configs" / "clusters" / f"{name}.yaml"
    # Before anything is asked, and before machines are looked at.
    ledger.free(path)
    if profile is not None:
        load_profile(context.home, profile)
    given = list(addresses)
    if not given and asks:
        given = _prompt("Machines, head first, as you give them to ssh (or `local`), with blanks between").split()
    if not given:
        raise HallmarkError("names no machine", where="--node", hint="write --node ADDRESS for each, head first")
    found = ledger.nodes(given)
    for node in found:
        gpus = ", ".join(sorted({gpu.name for gpu in node.facts.gpus})) or "no GPU seen"
        context.say(f"{node.name}: {node.facts.machine}, {len(node.facts.gpus)} × {gpus}")
    chosen = profile or _one("profile", ledger.profiles(context.home, found), asks, "--profile")
    possible = ledger.fabrics(found)
    if fabric is not None and not possible:
        raise HallmarkError("one machine has no fabric", where="--fabric", hint="leave it out, or name more machines")
    if possible:
        if fabric is not None:
            possible = [way for way in possible if fabric == way.network]
            if not possible:
                others = "; ".join(str(way) for way in ledger.fabrics(found))
                raise HallmarkError(
                    f"{fabric!r} does not join these nodes", where="--fabric", hint=f"there is {others}"
                )
        way = possible[0]
        if asks and len(possible) > 1:
            context.say("networks that join them:")
            for number, it in enumerate(possible, 1):
                context.say(f"  {number}  {it}")
            way = possible[click.prompt("Fabric", type=click.IntRange(1, len(possible)), default=1, err=True) - 1]
        context.say(f"fabric: {way}")
        found = [replace(node, ends=end) for node, end in zip(found, way.ends, strict=True)]
    folder = models if models is not None else ledger.models(context.home, chosen, found)
    if asks and models is None:
        folder = _prompt("Folder of model folders on the nodes", folder)
    content = ledger.text(chosen, engine, found, state, folder, api_port, master_port)
    for line in ledger.write(context.home, path, content):
        context.say(line)
    document = {"cluster": name, "file": str(path), "profile": chosen, "nodes": [node.name for node in found]}
    # A word without a folder is a name.
    again = name if out is None else out if out.parent.name or out.is_absolute() else f"./{out}"
    context.emit(document, lambda: f"wrote {path}\nnext: hallmark preflight {again}")


def _one(what: str, names: list[str], asks: bool, option: str) -> str:
    if len(names) == 1:
        return names[0]
    if names and asks:
        return str(click.prompt(what.capitalize(), type=click.Choice(names), default=names[0], err=True))
    hint = f"one of {', '.join(names)}" if names else "see `hallmark profiles`; none is for these machines as they are"
    raise HallmarkError(f"which {what} it runs is not clear", where=option, hint=hint)


def _prompt(question: str, default: str | None = None) -> str:
    return str(click.prompt(question, default=default, err=True)).strip()
