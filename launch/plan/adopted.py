"""Turns containers that somebody started by hand into the ranks of a plan. Pure: what engines said about them is given.

Values of secrets are not carried over: a variable that looks like one becomes a reference by its own name.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from launch.plan import ranks
from launch.plan.container import Adopted, Container, Mount
from launch.plan.group import RankPlan
from launch.plan.place import Place

Json = Mapping[str, Any]
# TOKENIZERS_PARALLELISM is none.
_SECRET = re.compile(r"(token|secret|key|password|passwd|credential)s?(_|$)", re.IGNORECASE)
_WITH_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@")
_SECRET_FLAGS = ("--api-key", "--hf-token")
_FABRIC = ("VLLM_HOST_IP", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "UCX_NET_DEVICES")
_ANONYMOUS = re.compile(r"[0-9a-f]{64}")
_UNITS = (("g", 2**30), ("m", 2**20), ("k", 2**10))
# Host settings that are read below, that follow from others, or that say nothing about what runs.
_READ = frozenset(
    re.findall(
        r"\w+",
        """AutoRemove Binds CapAdd CapDrop CpuPeriod CpuQuota CpusetCpus DeviceRequests Devices Dns ExtraHosts GroupAdd
        Init IpcMode LogConfig Memory MemorySwap Mounts NanoCpus NetworkMode PidMode PidsLimit PortBindings Privileged
        ReadonlyRootfs RestartPolicy Runtime SecurityOpt ShmSize Sysctls Tmpfs Ulimits UsernsMode UTSMode
        Annotations Cgroup CgroupnsMode ConsoleSize ContainerIDFile Isolation MaskedPaths ReadonlyPaths""",
    )
)


@dataclass(frozen=True)
class Found:
    """A running container that nobody here started: what the engine of a place says about it and about its image."""

    place: Place
    container: Json
    image: Json

    @property
    def id(self) -> str:
        return str(self.container["Id"])

    @property
    def name(self) -> str:
        return str(self.container["Name"]).removeprefix("/")

    @property
    def argv(self) -> tuple[str, ...]:
        config = self.container["Config"]
        return (*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ()))

    @property
    def words(self) -> list[str]:
        return ranks.words(self.argv)

    @property
    def serves(self) -> bool:
        """Whether it runs `vllm serve`, under one of its names."""
        told = self.words
        pairs = pairwise(told)
        program = any(word.rpartition("/")[2] == "vllm" and after == "serve" for word, after in pairs)
        return program or any(word.startswith("vllm.entrypoints.") for word in told)

    @property
    def rank(self) -> int:
        """Its rank by its own arguments; -1 when they are no number."""
        text = ranks.flag(self.words, "--node-rank", "-r") or "0"
        return int(text) if text.isdecimal() else -1

    @property
    def nnodes(self) -> int:
        text = ranks.flag(self.words, "--nnodes", "-n") or "1"
        return int(text) if text.isdecimal() else -1

    @property
    def headless(self) -> bool:
        return "--headless" in self.words

    @property
    def environment(self) -> dict[str, str]:
        """The variables that were given, without those that the image has anyway."""
        own, base = (_variables(it.get("Config") or {}) for it in (self.container, self.image))
        return {name: value for name, value in own.items() if base.get(name) != value}

    @property
    def secret_flags(self) -> list[str]:
        """Options on its command line whose value is a secret."""
        return [name for name in _SECRET_FLAGS if ranks.flag(self.words, name) is not None]


def rank_plan(found: Found, labels: Mapping[str, str]) -> RankPlan:
    """The rank as it runs; `labels` are ours, for the day when the container has to be made again."""
    given = found.environment
    secrets = {name: f"env:{name}" for name, value in given.items() if is_secret(name, value)}
    plain = {name: value for name, value in sorted(given.items()) if name not in secrets}
    place = found.place
    return RankPlan(
        name=place.name,
        rank=found.rank,
        address=place.address,
        docker_host=place.docker_host,
        argv=found.argv,
        env=plain,
        secrets=dict(sorted(secrets.items())),
        container=_container(found, labels),
        files={},
        own_env=tuple(name for name in _FABRIC if name in plain),
    )


def is_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a secret, by its name or by a password in an address."""
    return _SECRET.search(name) is not None or _WITH_PASSWORD.search(value) is not None


def warnings(found: Found) -> Iterator[str]:
    """What a plan cannot keep, or what will behave otherwise than under Hallmark."""
    host, told = found.container["HostConfig"], f"{found.place.name}: {found.name}"
    policy = (host.get("RestartPolicy") or {}).get("Name") or "no"
    if policy != "no":
        yield f"{told} restarts by itself ({policy}), so it may come back beside the group that replaces it"
    if host.get("AutoRemove"):
        yield f"{told} was started with --rm: it is gone once it stops, and is then made again from this record"
    for mount in found.container.get("Mounts") or ():
        if mount["Type"] == "volume" and _ANONYMOUS.fullmatch(mount.get("Name", "")):
            yield f"{told} has a volume without a name at {mount['Destination']}, which a new container would not have"
    other = sorted(name for name, value in host.items() if name not in _READ and value)
    if other:
        yield f"{told} has settings that only this container keeps, a new one would not: {', '.join(other)}"


def _container(found: Found, labels: Mapping[str, str]) -> Container:
    config, host, base = found.container["Config"], found.container["HostConfig"], found.image.get("Config") or {}
    policy = host.get("RestartPolicy") or {}
    retries = policy.get("MaximumRetryCount") or 0
    limits = {it["Name"]: (it["Soft"], it["Hard"]) for it in host.get("Ulimits") or ()}
    own = {
        name: value
        for name, value in (config.get("Labels") or {}).items()
        if (base.get("Labels") or {}).get(name) != value
    }
    binds = [it for it in found.container.get("Mounts") or () if it["Type"] == "bind"]
    return Container(
        name=found.name,
        image=str(found.container["Image"]),
        mounts=tuple(Mount(it["Source"], it["Destination"], not it["RW"]) for it in binds),
        devices=tuple(_device(it) for it in host.get("Devices") or ()),
        cap_add=tuple(host.get("CapAdd") or ()),
        ulimits={name: soft for name, (soft, hard) in limits.items() if soft == hard},
        shm_size=_size(host.get("ShmSize") or 0),
        gpus=_gpus(host.get("DeviceRequests") or ()),
        labels={**own, **labels},
        network=host.get("NetworkMode") or "default",
        restart=f"{policy['Name']}:{retries}" if retries else policy.get("Name") or "no",
        init=bool(host.get("Init")),
        stop_timeout=config.get("StopTimeout") or 10,
        adopted=Adopted(found.id, tuple(_options(found, limits))),
    )


def _options(found: Found, limits: Mapping[str, tuple[int, int]]) -> Iterator[tuple[str, ...]]:
    config, host, base = found.container["Config"], found.container["HostConfig"], found.image.get("Config") or {}
    if host.get("Privileged"):
        yield ("--privileged",)
    if host.get("ReadonlyRootfs"):
        yield ("--read-only",)
    for option, key, plain in (
        ("--ipc", "IpcMode", ("", "private", "shareable")),
        ("--pid", "PidMode", ("",)),
        ("--userns", "UsernsMode", ("",)),
        ("--uts", "UTSMode", ("",)),
        ("--runtime", "Runtime", ("", "runc")),
        ("--cpuset-cpus", "CpusetCpus", ("",)),
    ):
        if (value := host.get(key) or "") not in plain:
            yield option, str(value)
    for option, key in (
        ("--memory", "Memory"),
        ("--memory-swap", "MemorySwap"),
        ("--cpu-period", "CpuPeriod"),
        ("--cpu-quota", "CpuQuota"),
        ("--pids-limit", "PidsLimit"),
    ):
        if value := host.get(key):
            yield option, str(value)
    if nano := host.get("NanoCpus"):
        yield "--cpus", f"{nano / 1e9:g}"
    for option, key in (
        ("--cap-drop", "CapDrop"),
        ("--security-opt", "SecurityOpt"),
        ("--group-add", "GroupAdd"),
        ("--add-host", "ExtraHosts"),
        ("--dns", "Dns"),
    ):
        for value in host.get(key) or ():
            # Docker adds this one itself to what shares the host's processes.
            if (option, value) != ("--security-opt", "label=disable"):
                yield option, str(value)
    for name, (soft, hard) in limits.items():
        if soft != hard:
            yield "--ulimit", f"{name}={soft}:{hard}"
    for name, value in (host.get("Sysctls") or {}).items():
        yield "--sysctl", f"{name}={value}"
    for folder, how in (host.get("Tmpfs") or {}).items():
        yield "--tmpfs", f"{folder}:{how}" if how else folder
    for mount in found.container.get("Mounts") or ():
        if mount["Type"] == "volume" and not _ANONYMOUS.fullmatch(mount.get("Name", "")):
            yield "--volume", f"{mount['Name']}:{mount['Destination']}{'' if mount['RW'] else ':ro'}"
    for port, bound in (host.get("PortBindings") or {}).items():
        for it in bound or ():
            address = f"{it['HostIp']}:" if it.get("HostIp") else ""
            yield "--publish", f"{address}{it['HostPort']}:{port}"
    log = host.get("LogConfig") or {}
    if log.get("Type") not in (None, "", "json-file") or log.get("Config"):
        yield "--log-driver", str(log["Type"])
        yield from (("--log-opt", f"{name}={value}") for name, value in (log.get("Config") or {}).items())
    for option, key in (("--user", "User"), ("--workdir", "WorkingDir")):
        if (config.get(key) or "") != (base.get(key) or ""):
            yield option, str(config[key])


def _variables(config: Json) -> dict[str, str]:
    pairs = (line.partition("=") for line in config.get("Env") or ())
    return {name: value for name, _, value in pairs}


def _device(it: Json) -> str:
    inside, rights = it["PathInContainer"], it.get("CgroupPermissions") or "rwm"
    if inside == it["PathOnHost"] and rights == "rwm":
        return str(inside)
    return f"{it['PathOnHost']}:{inside}{'' if rights == 'rwm' else ':' + rights}"


def _gpus(requests: Any) -> str | None:
    for it in requests:
        if ids := it.get("DeviceIDs"):
            # One CSV field of --gpus, whose commas are quoted.
            return f'"device={",".join(ids)}"'
        return "all" if it.get("Count") == -1 else str(it.get("Count"))
    return None


def _size(count: int) -> str:
    return next((f"{count // size}{unit}" for unit, size in _UNITS if count and count % size == 0), f"{count}b")
