"""Commands that list what is configured: profiles, clusters."""

import click

from launch.cli.columns import columns
from launch.cli.context import Context
from recipe.config.load import list_clusters, list_profiles, load_support
from recipe.config.models import Fork, Profile


@click.command()
@click.pass_obj
def profiles(context: Context) -> None:
    """List the profiles with hardware, vLLM version and one line. Changes nothing."""
    found = list_profiles(context.home)
    support = load_support(context.home).value
    document = [
        {
            "name": profile.name,
            "hardware": profile.value.hardware,
            "nodes": profile.value.nodes,
            "gpus": profile.value.gpus,
            "vllm": _vllm(profile.value),
            "pins": support.pins(profile.value.release) if profile.value.release else {},
            "model": profile.value.model,
            "summary": profile.value.summary,
        }
        for profile in found
    ]
    head = ("PROFILE", "HARDWARE", "VLLM", "SUMMARY")
    rows = [(it.name, _machines(it.value), _vllm(it.value), it.value.summary) for it in found]
    context.emit({"profiles": document}, lambda: columns([head, *rows]))


@click.command()
@click.pass_obj
def clusters(context: Context) -> None:
    """List the clusters with profile, engine and nodes. Changes nothing."""
    found = list_clusters(context.home)
    document = [
        {
            "name": cluster.name,
            "profile": cluster.value.profile,
            "engine": cluster.value.engine,
            "nodes": [node.name for node in cluster.value.nodes],
        }
        for cluster in found
    ]
    head = ("CLUSTER", "PROFILE", "ENGINE", "NODES")
    rows = [
        (it.name, it.value.profile, it.value.engine, ", ".join(node.name for node in it.value.nodes)) for it in found
    ]
    context.emit({"clusters": document}, lambda: columns([head, *rows]))


def _machines(profile: Profile) -> str:
    nodes = f"{profile.nodes} × " if profile.nodes > 1 else ""
    return f"{nodes}{profile.gpus} {profile.hardware}" if profile.gpus > 1 else f"{nodes}{profile.hardware}"


def _vllm(profile: Profile) -> str:
    return f"fork {profile.vllm.fork}" if isinstance(profile.vllm, Fork) else profile.vllm
