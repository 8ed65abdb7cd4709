"""Profiles and clusters as if they were read from files, for one engine or another."""

from pathlib import Path
from typing import Any

from launch.plan.group import GroupPlan, Subject, plan_group
from recipe.config.check import Checked
from recipe.config.cluster_rules import cluster_rules
from recipe.config.load import Loaded, load_hardware
from recipe.config.models import Cluster, Profile
from recipe.config.paths import CHECKOUT
from recipe.config.source import read as read_document

IMAGE = "registry.example:5000/vllm/patched@sha256:" + "a" * 64
# Words that some format takes for its own.
TRAPS = [
    "$HOME", "${HOME}", "$$", "$(LWS_WORKER_INDEX)", "$$(A)", "$(id)", "`id`", "%h", "%%", "%t", "~", "~/x", "a~/b", "",
    " ", ";", "\\;", "\\", "\\n", "'", '"', "it's", "#x", "a # b", "!", "!ls", "-x", "--", "|", "*", "[a]", "{a}", "&a",
    "yes", "null", "1e3", "0o17", "012", "22:22", "=", "a=b", "{{ x }}", "{% x %}", "a\nb", "a\tb", "ä€😀",
    "EOF", "#SBATCH --x", "@x", "+x", ":x",
]  # fmt: skip
ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
PLAIN: tuple[dict[str, Any], dict[str, Any]] = (
    {"summary": "s", "hardware": "gb10", "nodes": 2, "vllm": "0.33.0", "model": "m", "container": {}},
    {
        "profile": "x",
        "engine": "docker",
        "nodes": [{"name": f"n{n}", "address": f"h{n}", "fabric": ADDRESSES[n]} for n in (0, 1)],
        "paths": {"models": "/m", "cache": "/c"},
    },
)
TRAPPED: tuple[dict[str, Any], dict[str, Any]] = (
    {**PLAIN[0], "serve": {"alpha": TRAPS}, "env": {f"T{n}": text for n, text in enumerate(TRAPS)}},
    PLAIN[1],
)


def loaded(profile: dict[str, Any], cluster: dict[str, Any], engine: str, folder: Path) -> Checked:
    """Both as if they were read from files, for one engine."""
    document = read_document(CHECKOUT / "configs" / "clusters" / "demo.yaml")
    bare = engine in ("process", "systemd", "slurm-bare")
    paths = cluster["paths"] | ({"venv": str(folder / "venv")} if bare else {})
    nodes = [node | ({"address": "local"} if engine == "process" else {}) for node in cluster["nodes"]]
    values = cluster | {"engine": engine.partition("-")[0], "paths": paths, "nodes": nodes}
    hardware = load_hardware(CHECKOUT, profile["hardware"])
    path = folder / "x.yaml"
    made = Loaded(Cluster.model_validate(values), document, path, "x")
    assert [it for it in cluster_rules(made) if it.severity == "error"] == []
    return Checked(Loaded(Profile.model_validate(profile), document, path, "p"), hardware, (), made)


def plan(checked: Checked, folder: Path) -> GroupPlan:
    bare = Subject("env", str(folder / "envs" / "x"), "b" * 64, str(folder / "venv"))
    return plan_group(
        checked.profile, checked.cluster, bare if checked.cluster.value.bare else Subject("image", IMAGE, "b" * 64)
    )
