"""What can only be tried: whether workers reach the head's master port on the fabric, and how fast the fabric is.

Nodes need python3 for the first and iperf3 for the second; without it that is said, and nothing is tried.
"""

import json
from collections.abc import Callable, Iterator

from launch.nodes import reach
from launch.nodes.preflight.site import Found, Machine, Site, Verdict, passed, plan_ports
from launch.plan.group import RankPlan

_SECONDS = 5
_MEASURE_SECONDS = 3
# Without `site`, which takes more than half of its start.
_PYTHON = ("python3", "-I", "-S", "-c")
# Words: ADDRESS PORT CONNECTIONS SECONDS. Somebody who listens there already does as well.
_LISTEN = """
import socket, sys, time
address, port, count, seconds = sys.argv[1], *map(int, sys.argv[2:])
end = time.monotonic() + seconds
try:
    server = socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
except OSError as error:
    sys.exit(str(error))
while count and (left := end - time.monotonic()) > 0:
    server.settimeout(left)
    try:
        server.accept()[0].close()
        count -= 1
    except TimeoutError:
        break
"""
_CONNECT = """
import socket, sys, time
address, port, seconds = sys.argv[1], *map(int, sys.argv[2:])
end, said = time.monotonic() + seconds, "nothing answered"
while (left := end - time.monotonic()) > 0:
    try:
        socket.create_connection((address, port), left).close()
        sys.exit()
    except OSError as error:
        said = error.strerror or "no answer"
        time.sleep(0.05)
sys.exit(said)
"""


def master_port(site: Site) -> list[Found]:
    """Every other node reaches the master port at the head's fabric address. Errors: Unreachable."""
    head, workers, address = _ends(site)
    if not workers or address is None:
        return []
    port = plan_ports(site.plan)["master"]
    lacking = [it.name for it in (head, *(machine for machine, _ in workers)) if "python3" not in it.facts.programs]
    if lacking:
        message = f"whether {address}:{port} is reached was not tried: there is no python3 on {', '.join(lacking)}"
        return [Found("master-port", None, Verdict.WARN, message, "install python3 there")]

    def listen() -> str:
        words = (*_PYTHON, _LISTEN, address, str(port), str(len(workers)), str(_SECONDS + 2))
        return reach.run(head.ranks[0].place, words).stderr.strip()

    def connect(rank: RankPlan) -> Callable[[], str]:
        words = (*_PYTHON, _CONNECT, address, str(port), str(_SECONDS))
        return lambda: reach.run(rank.place, words).stderr.strip()

    _, *said = reach.each(lambda ask: ask(), [listen, *(connect(rank) for _, rank in workers)])
    return list(_told(site, [rank.name for _, rank in workers], said, f"{address}:{port}"))


def _told(site: Site, names: list[str], said: list[str], where: str) -> Iterator[Found]:
    for name, reason in zip(names, said, strict=True):
        if not reason:
            yield passed("master-port", name, f"reaches {where}")
            continue
        head = site.plan.ranks[0].name
        yield Found(
            "master-port",
            name,
            Verdict.FAIL,
            f"does not reach {where} on {head}: {reason.splitlines()[-1]}",
            f"let {name} through the firewall of {head} (`sudo ufw allow from ITS_FABRIC_ADDRESS`), and see that both"
            " fabric addresses are of one subnet",
            site.cluster.document.where(("ports", "master")),
        )


def bandwidth(site: Site, least: float | None) -> list[Found]:
    """Gbit/s from every other node to the head, by iperf3 over TCP; `least` is the bar, by default a tenth of the
    slower interface: that tells a cable from a way around it. Errors: Unreachable."""
    head, workers, address = _ends(site)
    if not workers or address is None:
        return []
    port = plan_ports(site.plan)["master"]
    if any(it.port == port for it in head.facts.listeners):
        # Whoever listens would be sent what iperf3 says, and may be the group that serves.
        message = f"was not measured: port {port} of {head.name} is in use{' by the group' if site.serves else ''}"
        return [Found("bandwidth", None, Verdict.WARN, message, "measure before the launch, or after `hallmark stop`")]
    lacking = [it.name for it in (head, *(machine for machine, _ in workers)) if "iperf3" not in it.facts.programs]
    if lacking:
        message = f"was not measured: there is no iperf3 on {', '.join(lacking)}"
        return [Found("bandwidth", None, Verdict.WARN, message, "`sudo apt-get install iperf3` there")]
    return [_measured(site, head, machine, rank, address, least) for machine, rank in workers]


def _measured(site: Site, head: Machine, machine: Machine, rank: RankPlan, address: str, least: float | None) -> Found:
    port = str(plan_ports(site.plan)["master"])
    server = ("timeout", "40", "iperf3", "-s", "-1", "-B", address, "-p", port)
    # The server may not listen yet when the client begins, which with -J is told in the document only.
    script = (
        'n=0; while out=$("$@"); n=$((n + 1)); [ $n -lt 50 ]; do'
        """ case $out in *'"error":'*) sleep 0.2 ;; *) break ;; esac; done; printf '%s\\n' "$out\""""
    )
    client = (
        "sh",
        "-c",
        script,
        "sh",
        "iperf3",
        "-J",
        "-c",
        address,
        "-p",
        port,
        "-t",
        str(_MEASURE_SECONDS),
        "-P",
        "4",
    )

    def serve() -> str:
        return reach.run(head.ranks[0].place, server).stdout

    def measure() -> str:
        return reach.run(rank.place, client).stdout

    _, out = reach.each(lambda ask: ask(), (serve, measure))
    rate, error = read_iperf(out)
    if rate is None:
        hint = f"`iperf3 -s -B {address}` on {head.name} and `iperf3 -c {address}` on {rank.name}, by hand"
        return Found("bandwidth", rank.name, Verdict.FAIL, f"to {head.name} was not measured: {error}", hint)
    speeds = [it.speed for one in (head, machine) for it in one.facts.interfaces if _carries(site, one, it.addresses)]
    known = [speed for speed in speeds if speed]
    bar = least if least is not None else (min(known) / 1000 / 10 if known else 0.0)
    message = f"{rate:.1f} Gbit/s to {head.name} over TCP"
    if rate >= bar:
        return passed("bandwidth", rank.name, message + (f", at least {bar:g} wanted" if bar else ", no bar"))
    hint = "look at cable, MTU and route; NCCL over RDMA is faster than this, but not on another path"
    return Found("bandwidth", rank.name, Verdict.FAIL, f"{message}, {bar:g} wanted", hint)


def read_iperf(out: str) -> tuple[float | None, str]:
    """Gbit/s that arrived, from the JSON document that iperf3 wrote; else its error."""
    try:
        document = json.loads(out)
        return float(document["end"]["sum_received"]["bits_per_second"]) / 1e9, ""
    except (ValueError, KeyError, TypeError):
        pass
    try:
        return None, str(document["error"])
    except (NameError, KeyError, TypeError):
        return None, "iperf3 said nothing"


def _carries(site: Site, machine: Machine, addresses: tuple[str, ...]) -> bool:
    names = {rank.name for rank in machine.ranks}
    return any(node.name in names and node.fabric in addresses for node in site.cluster.value.nodes)


def _ends(site: Site) -> tuple[Machine, list[tuple[Machine, RankPlan]], str | None]:
    """The head, every other machine with its first rank, and the head's fabric address."""
    head = next(machine for machine in site.machines if machine.head)
    others = [(machine, machine.ranks[0]) for machine in site.machines if not machine.head]
    name = next(rank.name for rank in head.ranks if rank.rank == 0)
    return head, others, next((node.fabric for node in site.cluster.value.nodes if node.name == name), None)
