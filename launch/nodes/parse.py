"""Reads what look.sh printed. Pure: no node is asked here."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from launch.nodes.node import (
    Box,
    Disk,
    Engine,
    Gid,
    Gpu,
    GpuUse,
    Interface,
    Listener,
    Model,
    ModelFile,
    NodeFacts,
    Process,
    Rdma,
    RdmaPort,
)

_KIB, _MIB = 2**10, 2**20
_GPU_FIELDS = 8
# As the kernel says it, and as images do.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

Sections = dict[str, list[str]]


def sections(text: str) -> Sections:
    """The lines of each section, without the blank that marks them."""
    found: Sections = {}
    lines: list[str] = []
    # Names of files and processes have letters that end a line for Python only.
    for line in text.split("\n"):
        if line.startswith("@ "):
            lines = found.setdefault(line[2:], [])
        elif line.startswith(" "):
            lines.append(line[1:])
    return found


def parse(text: str, skew: float | None = None, doubt: float = 0.0) -> NodeFacts:
    """The facts in the words of look.sh. `skew` and `doubt` are about the clock, in seconds.

    Errors: ValueError when the script did not come to its end.
    """
    told = sections(text)
    if "end" not in told:
        raise ValueError("the node did not say everything")
    system, kernel, machine = (*_first(told, "system").split(), "?", "?", "?")[:3]
    user = [*told.get("user", []), "0", "/"]
    memory = {words[0]: int(words[1]) * _KIB for line in told.get("memory", []) if len(words := line.split()) == 3}
    lock = _first(told, "memlock")
    shm = _first(told, "shm").split()
    processes = tuple(_processes(told))
    return NodeFacts(
        system=system,
        machine=machine,
        kernel=kernel,
        user=int(user[0]),
        home=user[1],
        skew=skew,
        doubt=doubt,
        memory_total=memory.get("MemTotal:", 0),
        memory_free=memory.get("MemFree:", 0),
        memory_available=memory.get("MemAvailable:", 0),
        shm_free=int(shm[3]) * _KIB if len(shm) > 3 else None,
        memlock=-1 if lock == "unlimited" else int(lock) if lock.isdigit() else None,
        programs=tuple(told.get("programs", [])),
        largest=tuple(line.strip() for line in told.get("largest", [])),
        gpus=tuple(_gpus(told.get("gpus", []))),
        gpu_error=_gpu_error(told),
        gpu_uses=tuple(_gpu_uses(told)),
        listeners=tuple(_listeners(told)),
        processes=processes,
        interfaces=tuple(_interfaces(told)),
        routes=dict(_routes(told)),
        rdma=tuple(_rdma(told.get("rdma", []))),
        rdma_devices=tuple(word for line in told.get("rdma-devices", []) for word in line.split() if word != "*"),
        disks=tuple(_disks(told)),
        model=_model(told),
        engine=_engine(told),
    )


def clock(text: str) -> float | None:
    """The node's time in seconds; whole ones where its `date` knows no fractions."""
    found = re.match(r"[0-9]+(\.[0-9]+)?", _first(sections(text), "clock"))
    return float(found[0]) if found else None


def _first(told: Sections, name: str) -> str:
    return next(iter(told.get(name, [])), "")


def _mib(word: str) -> int | None:
    # Where memory is shared nvidia-smi writes [N/A], N/A, or Not Supported, by its version.
    return int(word) * _MIB if word.isdigit() else None


def _gpus(lines: list[str]) -> Iterator[Gpu]:
    for line in lines:
        words = [word.strip() for word in line.split(",")]
        if len(words) != _GPU_FIELDS or not words[0].isdigit():
            continue
        index, uuid, name, capability, driver, total, used, free = words
        yield Gpu(
            index=int(index),
            uuid=uuid,
            name=name,
            capability=capability if re.fullmatch(r"[0-9]+\.[0-9]+", capability) else None,
            driver=driver if driver[:1].isdigit() else None,
            total=_mib(total),
            used=_mib(used),
            free=_mib(free),
        )


def _gpu_error(told: Sections) -> str | None:
    if "gpus" not in told and "gpus-error" not in told:
        return None
    said = [line for name in ("gpus-error", "gpus") for line in told.get(name, []) if line.strip()]
    if "gpus-error" in told or not list(_gpus(said)):
        return " ".join(said) or "nvidia-smi said nothing"
    return None


def _gpu_uses(told: Sections) -> Iterator[GpuUse]:
    for line in told.get("gpu-processes", []):
        words = [word.strip() for word in line.split(",")]
        if len(words) == 3 and words[1].isdigit():
            yield GpuUse(gpu=words[0], pid=int(words[1]), used=_mib(words[2]))


def _listeners(told: Sections) -> Iterator[Listener]:
    owners = {words[1]: int(words[0]) for line in told.get("sockets", []) if len(words := line.split()) == 2}
    seen = set()
    for line in told.get("listeners", []):
        words = line.split()
        if len(words) == 2:
            found = Listener(port=int(words[0], 16), pid=owners.get(words[1]))
            if found not in seen:
                seen.add(found)
                yield found


def _processes(told: Sections) -> Iterator[Process]:
    for line in told.get("processes", []):
        pid, container, mark, command = (*line.split(" ", 3), "", "", "")[:4]
        yield Process(pid=int(pid), container=_given(container), mark=_given(mark), command=command.strip() or "?")


def _given(word: str) -> str | None:
    return word if word not in ("", "-") else None


def _interfaces(told: Sections) -> Iterator[Interface]:
    addresses: dict[str, list[str]] = {}
    for line in told.get("addresses", []):
        words = line.split()
        if len(words) > 3 and words[2] in ("inet", "inet6"):
            addresses.setdefault(words[1], []).append(words[3])
    for line in told.get("interfaces", []):
        name, state, mtu, speed = line.split()
        yield Interface(
            name=name,
            state=state,
            mtu=int(mtu) if mtu.isdigit() else None,
            # -1 is what drivers write for a speed that they do not know.
            speed=int(speed) if speed.isdigit() else None,
            networks=tuple(addresses.get(name, ())),
        )


def _routes(told: Sections) -> Iterator[tuple[str, str | None]]:
    for line in told.get("routes", []):
        peer, _, route = line.partition(" ")
        found = re.search(r"\bdev (\S+)", route)
        yield peer, found[1] if found else None


def _rdma(lines: list[str]) -> Iterator[Rdma]:
    devices: dict[str, dict[str, Any]] = {}
    for line in lines:
        kind, name, *words = line.split(" ")
        if kind == "device":
            slot, card = (*words, "", "")[:2]
            devices[name] = {"slot": _given(slot), "card": _given(card), "ports": {}, "entries": {}}
        elif name in devices and kind == "port":
            number, state, layer, *rate = words
            devices[name]["ports"][number] = (state, layer, " ".join(rate) or None)
        elif name in devices and kind == "entry":
            number, entry = words[0], " ".join(words[1:])
            path, _, value = entry.partition(":")
            devices[name]["entries"].setdefault(number, {})[path] = value
    for name, found in devices.items():
        ports = []
        for number, (state, layer, rate) in sorted(found["ports"].items()):
            entries: dict[str, str] = found["entries"].get(number, {})
            indices = sorted(int(path[5:]) for path in entries if path.startswith("gids/"))
            gids = tuple(
                Gid(
                    index=index,
                    address=entries[f"gids/{index}"],
                    kind=entries.get(f"gid_attrs/types/{index}"),
                    netdev=entries.get(f"gid_attrs/ndevs/{index}"),
                )
                for index in indices
            )
            ports.append(RdmaPort(number=int(number), state=state, layer=layer, rate=rate, gids=gids))
        yield Rdma(name=name, slot=found["slot"], card=found["card"], ports=tuple(ports))


def _disks(told: Sections) -> Iterator[Disk]:
    for line in (*told.get("disks", []), *told.get("engine-disk", [])):
        words = line.split(" ", 2)
        if len(words) == 3 and words[0].isdigit():
            yield Disk(folder=words[2], free=int(words[0]) * _KIB, size=int(words[1]) * _KIB)


def _model(told: Sections) -> Model | None:
    if "model" not in told:
        return None
    folder, root = _first(told, "model"), _first(told, "model-root")
    files, unfinished = [], False
    for line in told.get("model-files", []):
        size, owner, path = line.split(" ", 2)
        unfinished = unfinished or path.startswith(".hallmark-parts/")
        # What the programs that fetch it keep for themselves is no part of the model.
        if not path.startswith((".cache/", ".hallmark-")):
            files.append(ModelFile(path=path, size=int(size), owner=int(owner)))
    outside: dict[str, str | None] = {}
    for line in told.get("model-links", []):
        link, _, end = line.partition(" -> ")
        if not end or not end.startswith(f"{root}/"):
            outside[link] = end or None
    revision = _first(told, "model-revision").strip()
    if not revision and (snapshot := re.search(r"/snapshots/([0-9a-f]{40})/?$", root or folder)):
        revision = snapshot[1]
    return Model(
        folder=folder,
        files=tuple(sorted(files, key=lambda file: file.path)),
        outside=outside,
        shards=tuple(told.get("model-shards", [])),
        revision=revision or None,
        unfinished=unfinished,
    )


def _engine(told: Sections) -> Engine | None:
    if "engine-error" in told:
        # The program writes `null` for what it asked and its reason behind it.
        said = [line for line in told["engine-error"] if line.strip() not in ("", "null")]
        return Engine(error=" ".join(said) or "docker said nothing")
    if "engine" not in told:
        return None
    server, info = _json(told, "engine"), _json(told, "engine-info")
    boxes = []
    for line in told.get("containers", []):
        identity, state, name, group = (*line.split(" ", 3), "", "", "")[:4]
        boxes.append(Box(id=identity, state=state, name=name, group=group or None))
    return Engine(
        system=server.get("Os"),
        architecture=_ARCHITECTURES.get(str(server.get("Arch")), server.get("Arch")),
        version=server.get("Version"),
        root=info.get("DockerRootDir"),
        runtimes=tuple(sorted(info.get("Runtimes") or ())),
        cdi=tuple(str(it.get("ID")) for it in info.get("DiscoveredDevices") or ()),
        boxes=tuple(boxes),
        image_env=_image(told),
    )


def _image(told: Sections) -> dict[str, str] | None:
    with suppress(ValueError):
        lines = json.loads(_first(told, "image"))
        return dict(line.split("=", 1) for line in lines or () if "=" in line)
    return None


def _json(told: Sections, name: str) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(_first(told, name))
        return found if isinstance(found, dict) else {}
    return {}
