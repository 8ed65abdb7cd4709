"""The environment of one rank: the profile's, what the fabric needs, the node's own, what the subject needs."""

from recipe.config.models import Node, Profile
from recipe.config.rules import is_reference

# A plan cannot know the node's PATH and must not depend on this machine's.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def split(env: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Plain values, and references to secrets (`env:NAME`, `file:PATH`), both by variable."""
    plain = {name: value for name, value in env.items() if not is_reference(value)}
    return plain, {name: value for name, value in env.items() if name not in plain}


def fabric(node: Node) -> dict[str, str]:
    """Variables that bind vLLM, Gloo and NCCL to the node's place on the fabric."""
    found = {
        # Without it the head advertises the address of the default route, which other nodes may not reach.
        "VLLM_HOST_IP": node.fabric,
        "NCCL_SOCKET_IFNAME": node.interface,
        "GLOO_SOCKET_IFNAME": node.interface,
        "NCCL_IB_HCA": node.hca,
    }
    return {name: value for name, value in found.items() if value is not None}


def of_node(profile: Profile, node: Node) -> tuple[dict[str, str], tuple[str, ...]]:
    """The rank's variables, and the names of those that are this node's own."""
    own = {**(fabric(node) if profile.nodes > 1 else {}), **node.env}
    return {**_patience(profile.env), **profile.env, **own}, tuple(sorted(own))


def _patience(env: dict[str, str]) -> dict[str, str]:
    """Kernels that are compiled in the middle of serving take as long as at the start, and vLLM gives up a step after
    300 s; so how long a start may take holds for a step too. Releases 0.26.0 to 0.33.0 know both variables."""
    seconds = env.get("VLLM_ENGINE_READY_TIMEOUT_S")
    # vLLM reads whole seconds.
    return {"VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": seconds} if seconds is not None and seconds.isdigit() else {}


def of_patched_tree(tree: str, venv: str | None) -> dict[str, str]:
    """Variables that put a patched copy of vLLM before the one of its virtual environment."""
    found = {"PYTHONPATH": tree}
    if venv is not None:
        found |= {"VIRTUAL_ENV": venv, "PATH": f"{venv}/bin:{_PATH}"}
    return found
