"""Checks of memory: the machine's, the GPUs', shared memory."""

from collections.abc import Iterator, Sequence

from launch.nodes.node import NodeFacts
from launch.nodes.preflight.site import Found, Machine, Site, Verdict, gib, passed
from launch.nodes.variables import number
from launch.plan.group import RankPlan
from launch.plan.ranks import flag, words
from recipe.config.models import Hardware

_GIB = 2**30
_UTILIZATION = "--gpu-memory-utilization"
# vLLM refuses to start with less: its own message asks for 160 MiB.
_SHM_BYTES = 160 * 2**20
_UNITS = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30}
# Above the first a GB10 was seen to stop answering, above the second nothing is left for the system
# (vllm-project/vllm#46307).
_WARN_SHARE, _MOST_SHARE = 0.85, 0.90


def wanted(hardware: Hardware, ranks: Sequence[RankPlan]) -> tuple[float, float]:
    """What ranks want of a machine's memory: as a share of all, where its GPU shares it, and in bytes."""
    return _share(ranks), _on_host(hardware, ranks) * _GIB


def host(site: Site) -> Iterator[Found]:
    """Ranks that compute on the host have the memory that they need there."""
    if site.hardware.value.rank_memory_gib is None:
        return
    for machine in site.machines:
        facts, ranks = machine.facts, machine.ranks
        there = facts.memory_total if site.serves else facts.memory_available
        needed = _on_host(site.hardware.value, ranks)
        if not there or needed * _GIB <= there:
            yield passed("memory", machine.name, f"{needed:.1f} GiB needed, {gib(there)} there")
            continue
        count = f"{len(ranks)} rank{'s' * (len(ranks) != 1)}"
        yield Found(
            "memory",
            machine.name,
            Verdict.FAIL,
            f"{count} need{'s' * (len(ranks) == 1)} about {needed:.1f} GiB of memory, {gib(there)} are there",
            f"end other programs there, or lower VLLM_CPU_KVCACHE_SPACE{_largest(facts)}",
            site.hardware.document.where(("rank-memory-gib",)),
        )


def gpu(site: Site) -> Iterator[Found]:
    """Each GPU has the share free that vLLM takes at its start; while the old group runs that says nothing."""
    for machine in site.machines:
        share = _share(machine.ranks)
        if not share or not machine.facts.gpus:
            continue
        if machine.facts.unified:
            yield from _unified(site, machine, share)
            continue
        short = False
        for it in machine.facts.gpus:
            if site.serves or it.total is None or it.free is None or it.free >= share * it.total:
                continue
            short = True
            yield Found(
                "gpu-memory",
                machine.name,
                Verdict.FAIL,
                f"GPU {it.index} has {gib(it.free)} free, {_UTILIZATION} {share:g} of its {gib(it.total)} needs"
                f" {gib(share * it.total)}{_who(machine.facts, it.uuid)}",
                "end what holds it, or lower the share",
            )
        if not short:
            yield passed("gpu-memory", machine.name, "held by the group that runs" if site.serves else "free")


def _unified(site: Site, machine: Machine, share: float) -> Iterator[Found]:
    facts = machine.facts
    needed = share * facts.memory_total
    told = f"{_UTILIZATION} {share:g} of {gib(facts.memory_total)} needs {gib(needed)}"
    if share > _MOST_SHARE:
        hint = f"write {_WARN_SHARE:g} or less"
        message = f"{told}, and GPU and system share this memory: nothing is left for the system"
        yield Found("gpu-memory", machine.name, Verdict.FAIL, message, hint)
        return
    if share > _WARN_SHARE:
        hint = f"write {_WARN_SHARE:g} or less"
        message = f"{told}, and GPU and system share this memory: above {_WARN_SHARE:g} machines stopped answering"
        yield Found("gpu-memory", machine.name, Verdict.WARN, message, hint)
    if site.serves:
        yield passed("gpu-memory", machine.name, "held by the group that runs")
    elif facts.memory_available < needed:
        yield Found(
            "gpu-memory",
            machine.name,
            Verdict.FAIL,
            f"{told}, {gib(facts.memory_available)} are available",
            f"end other programs there, or lower the share{_largest(facts)}",
        )
    elif facts.memory_free < needed:
        yield Found(
            "page-cache",
            machine.name,
            Verdict.WARN,
            f"{told}, and only {gib(facts.memory_free)} are free: the page cache holds the rest, which vLLM counts"
            " as used at its start (vllm-project/vllm#48140)",
            "`sync; echo 3 | sudo tee /proc/sys/vm/drop_caches` there, just before the launch",
        )
    else:
        yield passed("gpu-memory", machine.name, f"{gib(facts.memory_free)} free, {gib(needed)} needed")


def shared(site: Site) -> Iterator[Found]:
    """Ranks talk to their workers through /dev/shm."""
    for machine in site.machines:
        facts = machine.facts
        sizes = [_bytes(rank.container.shm_size) for rank in machine.ranks if rank.container is not None]
        if sizes and min(sizes) < _SHM_BYTES:
            message = f"the container gets {min(sizes) // 2**20} MiB of /dev/shm, vLLM needs {_SHM_BYTES // 2**20}"
            hint = "write `shm-size: 16g` under the profile's container"
            yield Found("shm", machine.name, Verdict.FAIL, message, hint)
        elif not sizes and facts.shm_free is not None and facts.shm_free < _SHM_BYTES:
            message = f"/dev/shm has {facts.shm_free // 2**20} MiB free, vLLM needs {_SHM_BYTES // 2**20}"
            yield Found("shm", machine.name, Verdict.FAIL, message, "enlarge it")
        else:
            size = min(sizes) if sizes else facts.shm_free
            yield passed("shm", machine.name, f"{gib(size)}" if size is not None else "not told")


def _on_host(hardware: Hardware, ranks: Sequence[RankPlan]) -> float:
    """GiB of ranks that compute on the host."""
    if hardware.rank_memory_gib is None:
        return 0.0
    return sum(hardware.rank_memory_gib + number(rank.env, "VLLM_CPU_KVCACHE_SPACE", 0) for rank in ranks)


def _share(ranks: Sequence[RankPlan]) -> float:
    """What the profile writes; without it vLLM's own default counts, which differs between releases."""
    found = 0.0
    for rank in ranks:
        if rank.container is None or not rank.container.gpus:
            continue
        told = flag(words(rank.argv), _UTILIZATION)
        found = max(found, float(told) if told else 0.0)
    return found


def _bytes(size: str) -> int:
    return int(size[:-1]) * _UNITS[size[-1]] if size[-1:] in _UNITS else int(size)


def _who(facts: NodeFacts, uuid: str) -> str:
    """Who holds memory of a GPU, in words."""
    told = []
    for use in facts.gpu_uses:
        if use.gpu != uuid:
            continue
        process = facts.process(use.pid)
        box = facts.box(process.container) if process else None
        command = f" ({process.command})" if process else ""
        inside = f" in container {box.name}" if box else ""
        size = f" {gib(use.used)}" if use.used is not None else ""
        told.append(f"process {use.pid}{command}{inside}{size}")
    return f"; held by {', '.join(told)}" if told else ""


def _largest(facts: NodeFacts) -> str:
    told = []
    for line in facts.largest[:3]:
        size, pid, command = (*line.split(None, 2), "", "", "")[:3]
        if size.isdigit():
            told.append(f"{pid} {command[:40]} {gib(int(size) * 1024)}")
    return f"; the largest are {'; '.join(told)}" if told else ""
