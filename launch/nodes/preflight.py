"""Whether this machine can run the local ranks of a plan, looked at before anything is touched."""

import platform
from collections.abc import Sequence
from pathlib import Path

from launch.nodes.ports import listener
from launch.plan.group import GroupPlan, at_home
from recipe.config.check import Checked
from recipe.errors import Problem

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_GIB = 2**30
# vLLM refuses to start with less: its own message asks for 160 MiB.
_SHM_BYTES = 160 * 2**20


def problems(checked: Checked, plan: GroupPlan, ours: Sequence[int]) -> list[Problem]:
    """Everything that stands in the way; `ours` are the processes of the group that will be stopped first."""
    found = _platform(checked)
    if found:
        return found
    return [*_model(checked, plan), *_ports(checked, ours), *_memory(checked, plan, ours), *_shared_memory()]


def _platform(checked: Checked) -> list[Problem]:
    hardware = checked.hardware
    machine = _MACHINES.get(platform.machine(), platform.machine())
    if platform.system() != "Linux":
        return [Problem(f"the process engine needs Linux, this is {platform.system()}", hint="use the docker engine")]
    if machine != hardware.value.architecture:
        where = checked.profile.document.where(("hardware",))
        message = f"{hardware.name} is {hardware.value.architecture}, this machine is {machine}"
        return [Problem(message, where, "launch it on a machine of that kind, or choose another profile")]
    return []


def _model(checked: Checked, plan: GroupPlan) -> list[Problem]:
    head = at_home(plan.ranks[0], str(Path.home()))
    folder = Path(head.argv[len(checked.profile.value.entrypoint)])
    if (folder / "config.json").is_file():
        return []
    hint = "put the model there, or change paths.models of the cluster"
    return [Problem(f"the model folder {folder} has no config.json", checked.profile.document.where(("model",)), hint)]


def _ports(checked: Checked, ours: Sequence[int]) -> list[Problem]:
    ports = checked.cluster.value.ports
    found = []
    for key, port in (("api", ports.api), ("master", ports.master)):
        holder = listener(port)
        if holder is not None and holder.pid not in ours:
            who = f"process {holder.pid} ({holder.command})" if holder.pid else holder.command
            where = checked.cluster.document.where(("ports", key))
            found.append(Problem(f"port {port} is taken by {who}", where, "end that process or choose another port"))
    return found


def _memory(checked: Checked, plan: GroupPlan, ours: Sequence[int]) -> list[Problem]:
    each = checked.hardware.value.rank_memory_gib
    if each is None:
        return []
    cache = sum(float(rank.env.get("VLLM_CPU_KVCACHE_SPACE", 0)) for rank in plan.ranks)
    needed = each * len(plan.ranks) + cache
    free = (_available() + sum(_resident(pid) for pid in ours)) / _GIB
    if free >= needed:
        return []
    message = f"{len(plan.ranks)} ranks need about {needed:.1f} GiB of memory, {free:.1f} GiB are available"
    where = checked.hardware.document.where(("rank-memory-gib",))
    return [Problem(message, where, "end other programs, or lower VLLM_CPU_KVCACHE_SPACE")]


def _shared_memory() -> list[Problem]:
    import shutil

    free = shutil.disk_usage("/dev/shm").free
    if free >= _SHM_BYTES:
        return []
    return [Problem(f"/dev/shm has {free // 2**20} MiB free, vLLM needs {_SHM_BYTES // 2**20}", hint="enlarge it")]


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
