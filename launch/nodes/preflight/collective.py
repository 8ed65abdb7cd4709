"""How fast NCCL itself is between the GPUs, by nccl-tests where somebody has installed it. *Not verified on hardware.*

One machine: `all_reduce_perf` of the node, else of the image. Several: `mpirun` on the head starts it on all of them,
which needs Open MPI, nccl-tests built with MPI=1 on every node, and a head that may log in to the others.
"""

import re
import shlex
from dataclasses import dataclass

from launch.nodes import reach
from launch.nodes.preflight.site import Found, Machine, Site, Verdict, passed

# The one built with MPI has a name of its own in NVIDIA's images.
PLAIN, WITH_MPI = "all_reduce_perf", "all_reduce_perf_mpi"
_LARGE = "512M"
_SECONDS = 180
# What docker writes behind its own reason.
_ADVICE = "See 'docker run"
_ABSENT, _LATE = 127, 124
_RANK = re.compile(r"#\s+Rank\s+(\d+)\s")
_ROW = re.compile(r"(?:\[\d+,\d+\]<stdout>:)?\s*(\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+(.*)")
_HOW = "install nccl-tests there (https://github.com/NVIDIA/nccl-tests), for several nodes with MPI=1"


@dataclass(frozen=True)
class AllReduce:
    """What nccl-tests measured: how many ranks took part, the bytes of the largest all-reduce, its bus bandwidth in
    GB/s (the better of in-place and out-of-place), and how many values were wrong."""

    ranks: int
    size: int
    rate: float
    wrong: int


def all_reduce(site: Site) -> list[Found]:
    """The bus bandwidth between all GPUs of the plan, against the hardware's bar. Errors: Unreachable."""
    gpus = _gpus(site)
    if gpus * len(site.machines) < 2:
        return []
    if site.serves:
        # It would take memory and time of the GPUs from the requests that are answered.
        hint = "measure before the launch, or after `hallmark stop`"
        return [Found("all-reduce", None, Verdict.WARN, "was not measured: the group serves on these GPUs", hint)]
    planned = _words(site, gpus)
    if isinstance(planned, str):
        return [Found("all-reduce", None, Verdict.WARN, f"was not measured: {planned}", _HOW)]
    head = next(machine for machine in site.machines if machine.head)
    done = reach.run(head.ranks[0].place, planned, seconds=_SECONDS + 30)
    if done.returncode == _ABSENT:
        where = f"on {head.name} and in its image" if site.plan.subject.kind == "image" else f"on {head.name}"
        return [Found("all-reduce", None, Verdict.WARN, f"was not measured: there is no {PLAIN} {where}", _HOW)]
    said = f"it did not end within {_SECONDS} s" if done.returncode == _LATE else done.stderr
    return [judged(site, read(done.stdout), gpus * len(site.machines), said, planned)]


def judged(site: Site, found: AllReduce | None, ranks: int, said: str, planned: tuple[str, ...]) -> Found:
    """The verdict on what was measured, or why nothing was."""
    by_hand = f"run it by hand: {shlex.join(planned)}"
    if found is None:
        lines = [line for line in said.splitlines() if line.strip() and not line.startswith(_ADVICE)]
        reason = lines[-1] if lines else "it wrote no result"
        return Found("all-reduce", None, Verdict.WARN, f"was not measured: {reason.strip()[:200]}", by_hand)
    if found.ranks != ranks:
        message = f"was not measured: {found.ranks} of {ranks} GPUs took part"
        hint = "nccl-tests must be built with MPI=1 to measure between machines" if len(site.machines) > 1 else by_hand
        return Found("all-reduce", None, Verdict.WARN, message, hint)
    if found.wrong:
        message = f"{found.wrong} values of an all-reduce of {found.size / 1e6:.0f} MB were wrong"
        return Found("all-reduce", None, Verdict.FAIL, message, f"a GPU or a link is broken; {by_hand}")
    bar = site.hardware.value.all_reduce_gbytes
    message = f"{found.rate:.1f} GB/s bus bandwidth between {ranks} GPUs, all-reduce of {found.size / 1e6:.0f} MB"
    if bar is None or found.rate >= bar:
        return passed("all-reduce", None, message + (f", at least {bar:g} wanted" if bar else ", no bar"))
    hint = "NCCL_DEBUG: INFO in the profile's env tells whether it goes over NVLink or RDMA, or over TCP"
    where = site.hardware.document.where(("all-reduce-gbytes",))
    return Found("all-reduce", None, Verdict.FAIL, f"{message}, {bar:g} wanted", hint, where)


def read(out: str) -> AllReduce | None:
    """From what nccl-tests wrote, with or without the prefixes of mpirun; None when it has no result.

    Its columns: bytes, elements, type, operation, root, then time, algorithm's and bus bandwidth, wrong values: out of
    place, and in newer releases in place behind it. Wrong values are N/A where they were not checked.
    """
    rows = [(int(row[1]), row[2].split()) for row in map(_ROW.match, out.splitlines()) if row]
    rows = [(size, columns) for size, columns in rows if len(columns) >= 4]
    if not rows:
        return None
    size, columns = max(rows, key=lambda row: row[0])
    try:
        rate = max(float(it) for it in columns[2::4])
        wrong = sum(float(it) for _, told in rows for it in told[3::4] if it != "N/A")
    except ValueError:
        return None
    return AllReduce(len(set(_RANK.findall(out))), size, rate, int(wrong))


def _gpus(site: Site) -> int:
    return 0 if site.hardware.value.device == "cpu" else min(site.hardware.value.gpus, _least(site))


def _least(site: Site) -> int:
    return min(len(machine.facts.gpus) for machine in site.machines)


def _words(site: Site, gpus: int) -> tuple[str, ...] | str:
    """The command on the head, or why there is none."""
    head, *others = sorted(site.machines, key=lambda machine: not machine.head)
    # Checked once behind the warm-up, so that a broken link is seen as one.
    sizes = ("-b", _LARGE, "-e", _LARGE, "-g", str(gpus), "-c", "1")
    if others:
        return _together(site, [head, *others], sizes)
    if PLAIN in head.facts.programs:
        variables = tuple(f"{name}={value}" for name, value in _variables(site).items())
        return ("timeout", str(_SECONDS), "env", *variables, PLAIN, *sizes)
    box = head.ranks[0].container
    if box is None:
        return f"there is no {PLAIN} on {head.name}"
    limits = [word for kind, limit in box.ulimits.items() for word in ("--ulimit", f"{kind}={limit}")]
    variables = tuple(word for it in _variables(site).items() for word in ("--env", "=".join(it)))
    return (
        *("timeout", str(_SECONDS), *head.ranks[0].place.docker("run", "--rm", "--pull", "never", "--network", "host")),
        *(("--gpus", box.gpus) if box.gpus else ()),
        *("--shm-size", box.shm_size, *limits, *variables, "--entrypoint", PLAIN, box.image, *sizes),
    )


def _together(site: Site, machines: list[Machine], sizes: tuple[str, ...]) -> tuple[str, ...] | str:
    program = next((it for it in (WITH_MPI, PLAIN) if all(it in one.facts.programs for one in machines)), None)
    if program is None:
        lacking = [one.name for one in machines if not {PLAIN, WITH_MPI} & set(one.facts.programs)]
        return f"there is no {PLAIN} on {', '.join(lacking or [one.name for one in machines])}"
    if "mpirun" not in machines[0].facts.programs:
        return f"there is no mpirun on {machines[0].name}"
    fabric = {node.name: node.fabric for node in site.cluster.value.nodes}
    hosts = [f"{fabric.get(one.ranks[0].name) or one.name}:1" for one in machines]
    options = [word for name, value in _variables(site).items() for word in ("-x", f"{name}={value}")]
    return (
        # Open MPI refuses root without both, which is who containers and appliances often are.
        *("env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "timeout", str(_SECONDS)),
        *("mpirun", "-np", str(len(machines)), "--host", ",".join(hosts), "--bind-to", "none"),
        *("--mca", "plm_rsh_args", "-o BatchMode=yes"),
        *options,
        program,
        *sizes,
    )


def _variables(site: Site) -> dict[str, str]:
    """The ranks' own of NCCL, so that the same way is measured. Where nodes differ NCCL takes the names that exist."""
    found: dict[str, list[str]] = {}
    for machine in site.machines:
        for name, value in machine.ranks[0].env.items():
            if name.startswith("NCCL_") and not name.startswith("NCCL_DEBUG"):
                found.setdefault(name, []).extend(it for it in value.split(",") if it not in found.get(name, ()))
    return {name: ",".join(dict.fromkeys(values)) for name, values in found.items()}
