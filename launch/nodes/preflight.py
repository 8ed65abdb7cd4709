"""Whether this machine can run the local ranks of a plan, looked at before anything is touched."""

import platform
import shutil
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from launch.nodes.ports import listener
from launch.nodes.variables import number
from launch.plan.group import GroupPlan, at_home
from launch.plan.ranks import flag, words
from recipe.config.load import Loaded
from recipe.config.models import Cluster, Hardware
from recipe.errors import Problem

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_GIB = 2**30
_SHM = Path("/dev/shm")
# vLLM refuses to start with less: its own message asks for 160 MiB.
_SHM_BYTES = 160 * 2**20


def problems(
    plan: GroupPlan, hardware: Loaded[Hardware], cluster: Loaded[Cluster], ours: Sequence[int]
) -> list[Problem]:
    """Everything that stands in the way; `ours` are the processes of the group that will be stopped first.

    The plan may be older than the files; they only lend their lines to the messages.
    """
    found = _platform(hardware)
    if found:
        return found
    return [
        *program(plan),
        *model(plan, cluster),
        *_ports(plan, cluster, ours),
        *_memory(plan, hardware, ours),
        *_shared_memory(),
    ]


def model_folder(plan: GroupPlan) -> Path:
    """The model's folder on this machine: the argument before the first flag."""
    argv = at_home(plan.ranks[0], str(Path.home())).argv
    first = next(place for place, word in enumerate(argv) if word.startswith("--"))
    return Path(argv[first - 1])


def plan_ports(plan: GroupPlan) -> dict[str, int]:
    """The ports that the head opens, by their keys in the cluster file."""
    argv = words(plan.ranks[0].argv)
    api = urlsplit(plan.api_url).port
    ports = {} if api is None else {"api": api}
    if len(plan.ranks) > 1:
        # A group that was started by hand may have left it at vLLM's default.
        ports["master"] = int(flag(argv, "--master-port") or 29501)
    return ports


def _platform(hardware: Loaded[Hardware]) -> list[Problem]:
    machine = _MACHINES.get(platform.machine(), platform.machine())
    if platform.system() != "Linux":
        return [Problem(f"the process engine needs Linux, this is {platform.system()}", hint="use the docker engine")]
    if machine != hardware.value.architecture:
        where = hardware.document.where(("architecture",))
        message = f"{hardware.name} is {hardware.value.architecture}, this machine is {machine}"
        return [Problem(message, where, "launch it on a machine of that kind, or choose another profile")]
    return []


def program(plan: GroupPlan) -> list[Problem]:
    """Whether the ranks' program is there."""
    head = plan.ranks[0]
    if shutil.which(head.argv[0], path=head.env.get("PATH")):
        return []
    where = f"{plan.subject.venv}/bin" if plan.subject.venv else None
    return [Problem(f"there is no program {head.argv[0]!r}", where, "install vLLM into that virtual environment")]


def model(plan: GroupPlan, cluster: Loaded[Cluster]) -> list[Problem]:
    """Whether the model is there."""
    folder = model_folder(plan)
    if (folder / "config.json").is_file():
        return []
    where = cluster.document.where(("paths", "models"))
    hint = "put the model there, or change paths.models of the cluster"
    return [Problem(f"the model folder {folder} has no config.json", where, hint)]


def _ports(plan: GroupPlan, cluster: Loaded[Cluster], ours: Sequence[int]) -> list[Problem]:
    found = []
    for key, port in plan_ports(plan).items():
        holder = listener(port)
        if holder is not None and holder.pid not in ours:
            who = f"process {holder.pid} ({holder.command})" if holder.pid else holder.command
            where = cluster.document.where(("ports", key))
            found.append(Problem(f"port {port} is taken by {who}", where, "end that process or choose another port"))
    return found


def _memory(plan: GroupPlan, hardware: Loaded[Hardware], ours: Sequence[int]) -> list[Problem]:
    each = hardware.value.rank_memory_gib
    if each is None:
        return []
    needed = each * len(plan.ranks) + sum(number(rank.env, "VLLM_CPU_KVCACHE_SPACE", 0) for rank in plan.ranks)
    free = (_available() + sum(_resident(pid) for pid in ours)) / _GIB
    if free >= needed:
        return []
    message = f"{len(plan.ranks)} ranks need about {needed:.1f} GiB of memory, {free:.1f} GiB are available"
    where = hardware.document.where(("rank-memory-gib",))
    return [Problem(message, where, "end other programs, or lower VLLM_CPU_KVCACHE_SPACE")]


def _shared_memory() -> list[Problem]:
    free = shutil.disk_usage(_SHM).free if _SHM.is_dir() else 0
    if free >= _SHM_BYTES:
        return []
    return [Problem(f"{_SHM} has {free // 2**20} MiB free, vLLM needs {_SHM_BYTES // 2**20}", hint="enlarge it")]


def _available() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _resident(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
