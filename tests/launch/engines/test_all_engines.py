"""One plan on every engine: what each rank gets is read back from what each engine is given, and is always the same."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from launch.engines import compose, lws, slurm, systemd
from launch.plan.group import GroupPlan
from recipe.config.check import Checked
from recipe.config.models import Profile
from recipe.errors import HallmarkError
from tests.readers import compose as compose_reader
from tests.readers import docker as docker_reader
from tests.readers import kubernetes as kubernetes_reader
from tests.readers import slurm as slurm_reader
from tests.readers import systemd as systemd_reader
from tests.readers.groups import ADDRESSES, PLAIN, TRAPPED, TRAPS, loaded, plan
from tests.readers.seen import HOME, planned

LETTERS = st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=("Cs", "Cc", "Zl", "Zp"))
TEXTS = st.one_of(st.sampled_from(TRAPS), st.text(LETTERS, max_size=12))
FOLDERS = st.sampled_from(["/srv/models", "~/models", "/a b", "/it's $5%h", "~/ü"])
NAMES = st.sampled_from(["A", "_b", "LANG_X", "VLLM_LOGGING_LEVEL", "NCCL_DEBUG", "A1"])
FLAGS = st.sampled_from(["served-model-name", "alpha", "beta", "speculative-config", "x.y"])


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """The contents of a profile and of a cluster whose nodes are alike."""
    count = draw(st.integers(1, 3))
    switch = st.booleans()
    profile = {
        "summary": "generated",
        "hardware": "gb10",
        "nodes": count,
        "gpus": draw(st.integers(1, 8)),
        "base": "registry.example/base:1",
        "vllm": "0.33.0",
        "model": draw(st.sampled_from(["tiny", "org/Model-1.5"])),
        "entrypoint": draw(st.sampled_from([["vllm", "serve"], ["vllm", "serve", "$x"]])),
        "serve": draw(
            st.dictionaries(FLAGS, st.one_of(TEXTS, st.integers(), switch, st.lists(TEXTS, min_size=1)), max_size=4)
        ),
        "env": draw(st.dictionaries(NAMES, TEXTS, max_size=4))
        | draw(st.sampled_from([{}, {"HF_TOKEN": "env:MY_TOKEN"}])),
        "container": {
            "gpus": draw(switch),
            "shm-size": draw(st.sampled_from(["16g", "512m"])),
            "ipc-lock": draw(switch),
            "infiniband": draw(switch),
            "memlock": draw(switch),
        },
    }
    own: dict[str, Any] = draw(st.sampled_from([{}, {"interface": "eth0", "hca": "mlx5_0,mlx5_1"}]))
    own = own | {"env": draw(st.dictionaries(st.sampled_from(["NODE_A", "NODE_B"]), TEXTS, max_size=2))}
    nodes = [{"name": f"n{rank}", "address": f"host{rank}", "fabric": ADDRESSES[rank], **own} for rank in range(count)]
    paths = {"models": draw(FOLDERS), "cache": draw(FOLDERS)}
    return profile, {"profile": "x", "engine": "docker", "nodes": nodes, "paths": paths}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        (root / "venv" / "bin").mkdir(parents=True)
        for place in (root, root / "venv" / "bin"):
            slurm_reader.programs(place)
        yield root


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@example(PLAIN)
@example(TRAPPED)
@given(groups())
def test_each_rank_gets_the_same_from_every_engine(folder: Path, group: tuple[dict[str, Any], dict[str, Any]]) -> None:
    profile, cluster = group
    try:
        Profile.model_validate(profile)
    except ValueError:
        assume(False)

    def of(engine: str) -> tuple[Checked, GroupPlan]:
        checked = loaded(profile, cluster, engine, folder)
        return checked, plan(checked, folder)

    _, by_docker = of("docker")
    _, by_process = of("process")
    images = [planned(rank) for rank in by_docker.ranks]
    bare = [planned(rank) for rank in by_process.ranks]
    assert [docker_reader.read(rank) for rank in by_docker.ranks] == images
    _, other = of("compose")
    assert [compose_reader.read(compose.text(rank)) for rank in other.ranks] == images
    _, other = of("systemd")
    units = [systemd.text("x", rank) for rank in other.ranks]
    assert [systemd_reader.read(text) for text in units] == bare
    assert {systemd_reader.program(text) for text in units} == {str(folder / "venv" / "bin" / "vllm")}

    addresses = ADDRESSES[: len(by_docker.ranks)]
    checked, other = of("slurm-bare")
    code, seen = slurm_reader.read(slurm.text(other, checked, ["true"]), folder, addresses)
    assert code == 1, "a rank that ends with 0 has failed all the same"
    # HOME is of the user, as with the process engine.
    assert [replace(it, env={k: v for k, v in it.env.items() if k != "HOME"}) for it in seen] == bare
    assert all(it.env["HOME"] == HOME for it in seen)

    checked, other = of("slurm-image")
    code, seen = slurm_reader.read(slurm.text(other, checked, ["true"]), folder, addresses)
    assert [it.argv for it in seen] == [it.argv for it in images]
    assert [it.mounts for it in seen] == [it.mounts for it in images]
    assert {it.env["HOME"] for it in seen} == {"/root"}
    # A container has the image's variables too.
    assert [{k: it.env.get(k) for k in want.env} for it, want in zip(seen, images, strict=True)] == [
        it.env for it in images
    ]

    checked, other = of("lws")
    homes = [mount.source for rank in other.ranks if rank.container for mount in rank.container.mounts]
    if any(text == "~" or text.startswith("~/") for text in homes):
        with pytest.raises(HallmarkError, match="Kubernetes knows no home folder"):
            lws.text(other, checked, None)
    else:
        text = lws.text(other, checked, None)
        assert [kubernetes_reader.read(text, rank, addresses) for rank in range(len(addresses))] == images
