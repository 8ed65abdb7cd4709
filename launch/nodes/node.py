"""What is known of a node: shapes only. `look` fills them from a machine, a data file from a recording."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Facts(BaseModel):
    """Base of all: exact keys, no changes. Sizes are bytes; None is what the node does not say."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Gpu(Facts):
    """One GPU. `total`, `used` and `free` are None where it shares the machine's memory."""

    index: int
    uuid: str
    name: str
    capability: str | None = None
    driver: str | None = None
    total: int | None = None
    used: int | None = None
    free: int | None = None


class GpuUse(Facts):
    """A process that holds memory of a GPU."""

    gpu: str
    pid: int
    used: int | None = None


class Process(Facts):
    """A process that listens or holds a GPU. `container` is its full id, `mark` the group of the process engine."""

    pid: int
    container: str | None = None
    mark: str | None = None
    command: str = "?"


class Listener(Facts):
    """A port that is listened on; `pid` is None when that is another user's process."""

    port: int
    pid: int | None = None


class Interface(Facts):
    """A network interface. `speed` is in Mbit/s; `networks` are its addresses with their prefix lengths."""

    name: str
    state: str
    mtu: int | None = None
    speed: int | None = None
    networks: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Its addresses alone."""
        return tuple(network.partition("/")[0] for network in self.networks)


class Gid(Facts):
    """One used entry of an RDMA port's table: `kind` is `IB/RoCE v1` or `RoCE v2`, `netdev` its interface."""

    index: int
    address: str
    kind: str | None = None
    netdev: str | None = None


class RdmaPort(Facts):
    """`layer` is InfiniBand or Ethernet, `rate` as the driver writes it."""

    number: int
    state: str
    layer: str
    rate: str | None = None
    gids: tuple[Gid, ...] = ()


class Rdma(Facts):
    """An InfiniBand or RoCE device. `slot` is its PCI address, `card` the number that all devices of a card share."""

    name: str
    slot: str | None = None
    card: str | None = None
    ports: tuple[RdmaPort, ...] = ()

    @property
    def netdevs(self) -> frozenset[str]:
        """The interfaces that belong to it."""
        return frozenset(gid.netdev for port in self.ports for gid in port.gids if gid.netdev)


class Disk(Facts):
    """The file system where a folder is or would be."""

    folder: str
    free: int
    size: int


class ModelFile(Facts):
    """A file of the model as a reader gets it; `owner` is a user's number."""

    path: str
    size: int
    owner: int


class Model(Facts):
    """A model's folder. `outside` are links by where they end (None when nowhere) that a mount of the folder lacks;
    `unfinished`: a fetch into it did not end."""

    folder: str
    files: tuple[ModelFile, ...] = ()
    outside: dict[str, str | None] = {}
    shards: tuple[str, ...] = ()
    revision: str | None = None
    unfinished: bool = False


class Box(Facts):
    """A container of the node's engine, running or not; `group` is Hallmark's mark."""

    id: str
    state: str
    name: str
    group: str | None = None


class Engine(Facts):
    """The container engine. `error` are its words when it did not answer; `runtimes` tells whether it knows GPUs."""

    system: str | None = None
    architecture: str | None = None
    version: str | None = None
    root: str | None = None
    runtimes: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()
    boxes: tuple[Box, ...] = ()
    image_env: dict[str, str] | None = None
    error: str | None = None


class NodeFacts(Facts):
    """Everything about one node. `skew` is its clock minus this machine's in seconds, `doubt` how wrong that may be;
    `memlock` is -1 without a limit; `gpu_error` what the driver's program said instead of GPUs."""

    system: str
    machine: str
    kernel: str
    user: int
    home: str
    skew: float | None = None
    doubt: float = 0.0
    memory_total: int = 0
    memory_free: int = 0
    memory_available: int = 0
    shm_free: int | None = None
    memlock: int | None = None
    programs: tuple[str, ...] = ()
    largest: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    gpu_error: str | None = None
    gpu_uses: tuple[GpuUse, ...] = ()
    listeners: tuple[Listener, ...] = ()
    processes: tuple[Process, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    routes: dict[str, str | None] = {}
    rdma: tuple[Rdma, ...] = ()
    rdma_devices: tuple[str, ...] = ()
    disks: tuple[Disk, ...] = ()
    model: Model | None = None
    engine: Engine | None = None

    @property
    def unified(self) -> bool:
        """Whether its GPUs share the machine's memory, as a GB10's does."""
        return bool(self.gpus) and all(gpu.total is None for gpu in self.gpus)

    def process(self, pid: int | None) -> Process | None:
        """The process of that number, when something is known of it."""
        return next((it for it in self.processes if it.pid == pid), None)

    def box(self, container: str | None) -> Box | None:
        """The container of that id."""
        boxes = self.engine.boxes if self.engine else ()
        return next((it for it in boxes if it.id == container), None)


def recorded(document: dict[str, Any]) -> NodeFacts:
    """Facts from a data file; what it does not say is as on an empty node."""
    return NodeFacts.model_validate(document)
