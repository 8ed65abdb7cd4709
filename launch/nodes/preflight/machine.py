"""Checks of the machine itself: its kind, engine, GPUs, clock, disks."""

from collections.abc import Iterator

from launch.nodes.preflight.site import Found, Machine, Site, Verdict, gib, passed
from launch.plan.container import LABEL

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
# An image is unpacked beside the compressed layers that arrive.
_ROOM = 1.5
# Logs and certificates of nodes are compared by their times.
_SKEW_SECONDS = 5.0
_CACHE_BYTES = 2 * 2**30


def architecture(site: Site) -> Iterator[Found]:
    """The machine is of the kind that the profile is for."""
    wanted = site.hardware.value.architecture
    for machine in site.machines:
        facts, engine = machine.facts, machine.facts.engine
        if facts.system != "Linux" and site.plan.engine == "process":
            message = f"the process engine needs Linux, this is {facts.system}"
            yield Found("architecture", machine.name, Verdict.FAIL, message, "use the docker engine")
            continue
        system = engine.system if engine and engine.system else facts.system.lower()
        kind = engine.architecture if engine and engine.architecture else _MACHINES.get(facts.machine, facts.machine)
        if (system, kind) == ("linux", wanted):
            yield passed("architecture", machine.name, f"linux/{kind}")
            continue
        yield Found(
            "architecture",
            machine.name,
            Verdict.FAIL,
            f"is {system}/{kind}, {site.hardware.name} is {wanted}",
            "choose a profile for that machine, or correct the node's address",
            site.hardware.document.where(("architecture",)),
        )


def engine(site: Site) -> Iterator[Found]:
    """The container engine answers and can give GPUs to containers."""
    if site.plan.engine != "docker":
        return
    for machine in site.machines:
        there = machine.facts.engine
        if there is None:
            hint = "install docker there, and let this user use it"
            yield Found("engine", machine.name, Verdict.FAIL, "there is no program docker", hint)
        elif there.error is not None:
            hint = "start it, or let this user use it: `docker info` there must answer"
            if "did not answer" in there.error:
                hint = "it hangs: restart docker there"
            yield Found("engine", machine.name, Verdict.FAIL, f"no engine answers: {there.error}", hint)
        elif _wants_gpus(machine) and "nvidia" not in there.runtimes and not any("nvidia" in it for it in there.cdi):
            hint = "install nvidia-container-toolkit there and run `nvidia-ctk runtime configure --runtime=docker`"
            message = "the engine has no runtime for GPUs"
            yield Found("engine", machine.name, Verdict.WARN, message, hint)
        else:
            yield passed("engine", machine.name, f"docker {there.version or ''}".strip())


def names(site: Site) -> Iterator[Found]:
    """No stranger's container has the name that a rank's container gets (D5)."""
    for machine in site.machines:
        for box in machine.facts.engine.boxes if machine.facts.engine else ():
            for rank in machine.ranks:
                planned = rank.container
                if planned is None or box.group is not None or planned.adopted is not None:
                    continue
                if box.name == planned.name or box.name.startswith(f"{planned.name}."):
                    yield Found(
                        "containers",
                        machine.name,
                        Verdict.FAIL,
                        f"a container {box.name} without the label {LABEL}.group has the name that rank"
                        f" {rank.rank} would get",
                        f"rename it with `docker rename {box.name} NAME`; Hallmark never touches what is not its own",
                    )


def gpus(site: Site) -> Iterator[Found]:
    """The GPUs are there, of the kind that the profile is for."""
    wanted = site.hardware.value
    for machine in site.machines:
        facts = machine.facts
        if wanted.device != "cuda" or not _wants_gpus(machine):
            continue
        if facts.gpu_error is not None:
            hint = "reboot after a driver update; `nvidia-smi` there must list the GPUs"
            message = f"the driver does not answer: {facts.gpu_error}"
            yield Found("gpus", machine.name, Verdict.FAIL, message, hint)
            continue
        if not facts.gpus:
            hint = "install the driver there; without it nothing is known of GPUs"
            yield Found("gpus", machine.name, Verdict.WARN, "there is no program nvidia-smi", hint)
            continue
        if len(facts.gpus) < wanted.gpus:
            yield Found(
                "gpus",
                machine.name,
                Verdict.FAIL,
                f"has {len(facts.gpus)} GPUs, {site.hardware.name} has {wanted.gpus}",
                "choose a profile for that machine, or see what `nvidia-smi` there lacks",
                site.hardware.document.where(("gpus",)),
            )
            continue
        other = [gpu for gpu in facts.gpus if gpu.capability not in (None, wanted.capability)]
        if other:
            yield Found(
                "gpus",
                machine.name,
                Verdict.FAIL,
                f"{other[0].name} has compute capability {other[0].capability}, {site.hardware.name} has"
                f" {wanted.capability}",
                "choose a profile for that machine",
                site.hardware.document.where(("capability",)),
            )
            continue
        first = facts.gpus[0]
        yield passed("gpus", machine.name, f"{len(facts.gpus)} × {first.name}, driver {first.driver or 'unknown'}")


def drivers(site: Site) -> Iterator[Found]:
    """All nodes have the same driver: NCCL and the compiled kernels meet in it."""
    found = {machine.name: gpu.driver for machine in site.machines for gpu in machine.facts.gpus[:1] if gpu.driver}
    if len(set(found.values())) > 1:
        told = ", ".join(f"{driver} on {name}" for name, driver in found.items())
        hint = "bring the nodes to the same driver"
        yield Found("gpus", None, Verdict.WARN, f"different drivers: {told}", hint)


def clock(site: Site) -> Iterator[Found]:
    """The node's clock is near this machine's."""
    for machine in site.machines:
        skew = machine.facts.skew
        if skew is None:
            continue
        if abs(skew) <= _SKEW_SECONDS + machine.facts.doubt:
            yield passed("clock", machine.name, f"within {_SKEW_SECONDS:.0f} s of this machine's")
            continue
        yield Found(
            "clock",
            machine.name,
            Verdict.WARN,
            f"its clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's",
            "`timedatectl set-ntp true` there; logs and certificates are compared by their times",
        )


def disk(site: Site) -> Iterator[Found]:
    """There is room for the image and for compile caches."""
    for machine in site.machines:
        free = {it.folder: it.free for it in machine.facts.disks}
        root = machine.facts.engine.root if machine.facts.engine else None
        short = False
        missing = [site.lacking.get(rank.name) or 0 for rank in machine.ranks]
        if max(missing) and root in free:
            needed = max(missing) * _ROOM
            if free[root] < needed:
                short = True
                yield Found(
                    "disk",
                    machine.name,
                    Verdict.FAIL,
                    f"{root} has {gib(free[root])} free, what it lacks of the image needs {gib(needed)}",
                    "`docker system df` there shows what fills it",
                )
        for folder, there in free.items():
            if folder != root and there < _CACHE_BYTES:
                short = True
                yield Found(
                    "disk",
                    machine.name,
                    Verdict.WARN,
                    f"{folder} has {gib(there)} free, and compiled kernels go there",
                    "`du -xh --max-depth=2` there shows what fills it",
                )
        if free and not short:
            yield passed("disk", machine.name, f"{gib(min(free.values()))} free")


def _wants_gpus(machine: Machine) -> bool:
    return any(rank.container is not None and rank.container.gpus for rank in machine.ranks)
