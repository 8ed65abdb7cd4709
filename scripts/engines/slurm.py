"""A Slurm of its own on this machine: a controller and two nodes on loopback, each with an address of its own.

It has no accounting and no authentication, which is enough for one user of one machine. Nothing of the system's own
Slurm is read or changed.
"""

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.engines.packages import program
from scripts.engines.process import Background

_START_SECONDS = 30
_NODES = 2


@dataclass(frozen=True)
class Slurm:
    """A running Slurm. `config`: what SLURM_CONF is to be; nodes are `n1` on 127.0.0.1 and `n2` on 127.0.0.2."""

    config: Path
    daemons: list[Background]

    def ask(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run one of Slurm's commands on it."""
        env = {"SLURM_CONF": str(self.config), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
        return subprocess.run(words, check=False, capture_output=True, text=True, env=env)


@contextmanager
def running() -> Iterator[Slurm]:
    """Start it; all jobs are cancelled and everything of it is ended and removed at the end.

    Errors: Refused when it cannot be installed or does not start.
    """
    controller, node = program("slurmctld", "slurm-wlm"), program("slurmd", "slurm-wlm")
    folder = Path(tempfile.mkdtemp(prefix="hallmark-slurm-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        config = _configure(folder)
        daemons = [Background([controller, "-D", "-c", "-f", str(config)], folder / "slurmctld.log")]
        stack.callback(daemons[0].end)
        slurm = Slurm(config, daemons)
        daemons[0].wait(lambda: slurm.ask("scontrol", "ping").returncode == 0, _START_SECONDS)
        for number in range(1, _NODES + 1):
            name = f"n{number}"
            daemons.append(Background([node, "-D", "-N", name, "-f", str(config)], folder / f"{name}.log"))
            stack.callback(daemons[-1].end)
        stack.callback(_cancel_all, slurm)
        daemons[-1].wait(lambda: _idle(slurm) == _NODES, _START_SECONDS)
        yield slurm


def _idle(slurm: Slurm) -> int:
    return slurm.ask("sinfo", "--noheader", "--Node", "--format=%t").stdout.split().count("idle")


def _cancel_all(slurm: Slurm) -> None:
    slurm.ask("scancel", "--full", "--signal=KILL", "--partition=all")
    slurm.ask("scancel", "--partition=all")
    # A slurmd that ends leaves its jobs running.
    slurm.daemons[0].wait(lambda: not slurm.ask("squeue", "--noheader").stdout.strip(), 60)


def _configure(folder: Path) -> Path:
    host = socket.gethostname().partition(".")[0]
    ports = _free_ports(_NODES + 1)
    lines = [
        "ClusterName=hallmark",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={ports[0]}",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/%n.pid",
        f"SlurmdSpoolDir={folder}/%n",
        f"StateSaveLocation={folder}/state",
        "SlurmUser=root",
        "AuthType=auth/none",
        "CredType=cred/none",
        # This machine may have no control groups, and nothing shall be confined.
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "ReturnToService=2",
        # A job begins as soon as there is room, not at the next round.
        "SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=1",
    ]
    for number in range(1, _NODES + 1):
        (folder / f"n{number}").mkdir()
        lines.append(f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.{number} Port={ports[number]} CPUs=2")
    lines.append("PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
    (folder / "state").mkdir()
    config = folder / "slurm.conf"
    config.write_text("".join(f"{line}\n" for line in lines))
    return config


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for it in sockets:
            it.bind(("127.0.0.1", 0))
        return [int(it.getsockname()[1]) for it in sockets]
