"""Reads the script of a job by running it in bash, with StandIns of Slurm's programs: one allocation, no cluster.

`srun` runs what it is given once for each rank on this machine; the ranks' program says what it was given and ends.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.readers.seen import HOME, SECRETS, Seen

_SCONTROL = """#!/bin/sh
if [ "$1" = show ]; then for host in $HOSTS; do echo "${host%%=*}"; done; exit; fi
for host in $HOSTS; do
  if [ "${host%%=*}" = "$4" ]; then echo "NodeName=$4 Arch=x86_64 NodeAddr=${host#*=} NodeHostName=$4 State=IDLE"; fi
done
"""
_SRUN = """#!{python}
import os, subprocess, sys
words, options = sys.argv[1:], []
while words[0].startswith("--"):
    options.append(words.pop(0))
said = dict(option[2:].partition("=")[::2] for option in options)
if words[0] == "mkdir":
    sys.exit(0)
codes = []
for rank in range(len(os.environ["HOSTS"].split())):
    with open(said["output"].replace("%t", str(rank)), "wb") as out:
        out.write(said.get("container-mounts", "").encode() + b"\\1")
        out.flush()
        env = {{**os.environ, "SLURM_PROCID": str(rank)}}
        codes.append(subprocess.run(words, env=env, stdout=out, stderr=2).returncode)
# Only a status makes the real one end the others at once.
sys.exit(99 if 0 in codes else max(codes))
"""
_PROGRAM = """#!{python}
import os, sys
from pathlib import Path
words = Path("/proc/self/cmdline").read_bytes().split(b"\\0")[1:-1]
environ = Path("/proc/self/environ").read_bytes().split(b"\\0")[:-1]
sys.stdout.buffer.write(b"\\0".join([b"vllm", *words[1:]]) + b"\\1" + b"\\0".join(environ))
"""


def programs(folder: Path) -> None:
    """Write the StandIns, and the ranks' program `vllm`."""
    for name, text in {"scontrol": _SCONTROL, "srun": _SRUN, "vllm": _PROGRAM}.items():
        path = folder / name
        path.write_text(text.format(python=sys.executable) if name != "scontrol" else text)
        path.chmod(0o755)


def read(script: str, folder: Path, addresses: list[str]) -> tuple[int, list[Seen]]:
    """The job's exit status and what each rank saw. `folder` has the programs; it gets the logs."""
    job = folder / "job.sh"
    job.write_text(script)
    hosts = [f"host-{number}={address}" for number, address in enumerate(addresses)]
    passed = re.search("^#SBATCH --export=(.*)$", script, re.MULTILINE)
    assert passed is not None
    # Only what the job is submitted with, and what Slurm adds.
    mine = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": HOME, "SECRET_OF_MINE": "x", **SECRETS}
    env = {name: text for name, text in mine.items() if name in passed[1].split(",")}
    env |= {"SLURM_JOB_NODELIST": "all", "SLURM_JOB_ID": "7", "HOSTS": " ".join(hosts)}
    done = subprocess.run(["bash", str(job), str(folder / "logs")], env=env, capture_output=True, text=True, cwd=folder)
    return done.returncode, [_rank(folder / "logs" / f"rank-{rank}.log") for rank in range(len(addresses))]


def _rank(log: Path) -> Seen:
    mounts, argv, environ = log.read_bytes().decode().split("\1")
    parts = [part.split(":") for part in mounts.split(",") if part]
    env = dict(line.partition("=")[::2] for line in environ.split("\0"))
    # The shell's own notes: the program's path, and how many shells are around it.
    for name in ("_", "SHLVL"):
        env.pop(name, None)
    return Seen(tuple(argv.split("\0")), env, frozenset((it[0], it[1], it[2:] == ["ro"]) for it in parts))
