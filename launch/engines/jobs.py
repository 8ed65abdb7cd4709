"""The Slurm engine: a group is one job, found again by its comment and its name, which both are the group's mark:
people rename jobs, and sites write comments of their own.

Slurm's own programs are run on this machine; scripts and logs must lie where all its nodes see them. All ranks live as
long as the job: its script ends with the first of them.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from launch.engines.base import Look, RankState
from launch.engines.containers import Reach
from launch.engines.process import keep
from launch.engines.tail import tail
from launch.plan.group import GroupPlan
from launch.plan.place import Place
from launch.plan.ranks import concrete, flag
from recipe.errors import HallmarkError, NeedsOperator, Refused, Unreachable

_HERE = Place("this machine", "local")
_POLL = 0.25
# Slurm ends by force what is left 30 s after it was asked to end (KillWait), and then waits for the processes.
_FORCE_SECONDS = 90
# Ranks do not need the controller, and one that is restarted is back by then.
_SILENCE_SECONDS = 300
_HELD = ("SUSPENDED", "STOPPED")
# What users set for themselves would hide jobs here, ask before it cancels them, or change what the script says.
_OF_USER = re.compile("SQUEUE_.*|SCANCEL_.*|SBATCH_(EXPORT|REQUEUE|ARRAY_INX|WAIT)")


@dataclass(frozen=True)
class Job:
    """A job that Slurm still lists; `host` runs the head once the job runs, `reason` says why it does not."""

    id: str
    state: str
    host: str
    reason: str
    comment: str
    name: str

    def of(self, group: str) -> bool:
        """Whether it is this group's."""
        return group in (self.comment, self.name)


class SlurmEngine:
    """Runs a group as one job of this user."""

    # Every look is a question to the controller that all users share.
    look_seconds = 1.0

    def __init__(self, reach: Reach, say: Callable[[str], None]) -> None:
        self._reach = reach
        self._say = say
        self._started: str | None = None
        self._seen: tuple[str, float, list[Look]] | None = None

    def start(self, plan: GroupPlan, group: str, logs: Path) -> None:
        """Submit the job and wait until Slurm runs it, however long the queue is; Ctrl-C gives up."""
        # A folder of its own: nodes may have any name.
        folder = logs / "job"
        folder.mkdir(parents=True, exist_ok=True)
        for rank in plan.ranks:
            log = folder / f"rank-{rank.rank}.log"
            keep(log)
            log.touch()
            # srun knows ranks by their numbers only.
            link = logs / f"{rank.name}.log"
            link.unlink(missing_ok=True)
            link.symlink_to(f"job/{log.name}")
        output = folder / "job.log"
        keep(output)
        script = folder / "job.sh"
        script.write_text(_script(plan), encoding="utf-8")
        words = [f"--job-name={group}", f"--comment={group}", f"--output={output}", f"--chdir={folder}", "--parsable"]
        words += [str(script), str(folder)]
        number = self._ask("sbatch", *words).strip().partition(";")[0]
        self._started = group
        told = None
        while True:
            job = next((job for job in self._patiently(group) if job.id == number), None)
            if job is None:
                said = output.read_text(errors="replace").strip().splitlines() if output.is_file() else []
                raise Refused(f"job {number} {self._end(number)}: {said[-1] if said else 'it wrote nothing'}")
            if job.state == "RUNNING":
                self._seen = group, time.monotonic(), [Look(rank.name, rank.rank, True) for rank in plan.ranks]
                return
            if job.reason != told and job.state == "PENDING":
                told = job.reason
                self._say(f"  job {number} is in the queue ({job.reason})")
            time.sleep(_POLL)

    def ranks(self, plan: GroupPlan, group: str) -> list[RankState]:
        alive = any(job.state in ("RUNNING", *_HELD) for job in self._patiently(group))
        return [RankState(rank.name, rank.rank, alive, ()) for rank in plan.ranks]

    def look(self, plan: GroupPlan, group: str) -> list[Look]:
        try:
            states = {job.state for job in self._jobs(group)} & {"RUNNING", *_HELD}
            held = None if "RUNNING" in states or not states else f"its job is {min(states)}"
            found = [Look(rank.name, rank.rank, bool(states), held=held) for rank in plan.ranks]
            self._seen = group, time.monotonic(), found
            return found
        except Unreachable as error:
            if self._seen and self._seen[0] == group and time.monotonic() - self._seen[1] < _SILENCE_SECONDS:
                return self._seen[2]
            return [Look(rank.name, rank.rank, False, reached=False, why=str(error)) for rank in plan.ranks]

    def drift(self, plan: GroupPlan, group: str) -> dict[int, list[str]]:
        found: list[str] = []
        if not plan.ranks:
            return {}
        for job in self._patiently(group):
            if job.state == "RUNNING":
                running = self._run("scontrol", "write", "batch_script", job.id, "-")
                # It fails for a job that has ended since.
                if running.returncode == 0 and running.stdout.strip() != _script(plan).strip():
                    found = [f"the script of job {job.id} is not the planned one"]
        return {rank.rank: list(found) for rank in plan.ranks}

    def groups(self, owner: str, plans: Sequence[GroupPlan]) -> set[str]:
        return {mark for job in self._jobs() for mark in (job.comment, job.name) if mark.startswith(owner)}

    def stop(self, plan: GroupPlan, group: str, patience: float) -> None:
        asked: set[str] = set()
        began = time.monotonic()
        forced = False
        while jobs := self._patiently(group):
            fresh = [job.id for job in jobs if job.id not in asked]
            # One that has ended since is an error to it; what is left is seen by the next look, and asked again.
            if fresh and self._run("scancel", *fresh).returncode == 0:
                asked.update(fresh)
            waited = time.monotonic() - began
            if waited > patience and not forced:
                forced = True
                self._run("scancel", "--full", "--signal=KILL", *(job.id for job in jobs))
            if waited > patience + _FORCE_SECONDS:
                listed = ", ".join(f"{job.id} ({job.state})" for job in jobs)
                raise NeedsOperator(f"job {listed} cannot be ended", hint="see what its nodes say")
            time.sleep(_POLL)

    def collect(self, plan: GroupPlan, group: str, logs: Path) -> set[str]:
        """Nothing to do: srun writes there, each start into files of its own."""
        return {rank.name for rank in plan.ranks}

    def follow(self, plan: GroupPlan, group: str, logs: Path, lines: int) -> dict[str, tuple[Place, tuple[str, ...]]]:
        return {rank.name: tail(rank.name, logs, lines) for rank in plan.ranks}

    def tidy(self, owner: str, keep: set[str], plans: Sequence[GroupPlan]) -> None:
        """Nothing to do: Slurm forgets jobs that ended."""

    def api_url(self, plan: GroupPlan, group: str) -> str:
        if not concrete(flag(plan.ranks[0].argv, "--host")):
            for job in self._patiently(group):
                if job.host:
                    return f"http://{self._address(job.host)}:{urlsplit(plan.api_url).port}"
        return plan.api_url

    def refusal(self, plan: GroupPlan) -> str | None:
        """Why Slurm would not take the job; None when it would. Nothing is submitted."""
        if shutil.which("sbatch") is None:
            return "there is no program sbatch on PATH"
        done = self._run("sh", "-c", 'printf %s "$1" | sbatch --test-only', "sh", _script(plan))
        return None if done.returncode == 0 else _last(done)

    def _address(self, host: str) -> str:
        told = self._ask("scontrol", "--oneliner", "show", "node", host)
        return next((word.partition("=")[2] for word in told.split() if word.startswith("NodeAddr=")), host)

    def _jobs(self, group: str | None = None) -> list[Job]:
        # A name may have every letter, so it is the last.
        told = self._ask("squeue", "--noheader", "--me", "--format=%i|%T|%B|%r|%k|%j")
        jobs = [Job(*line.split("|", 5)) for line in told.splitlines() if line.count("|") >= 5]
        jobs = [job for job in jobs if group is None or job.of(group)]
        return [replace(job, host="") if job.host == "n/a" else job for job in jobs]

    def _patiently(self, group: str) -> list[Job]:
        """The jobs; of a group that was started here Slurm is asked again when it does not answer.

        Errors: Unreachable when that goes on for long.
        """
        began = time.monotonic()
        told = False
        while True:
            try:
                return self._jobs(group)
            except Unreachable as error:
                if group != self._started or time.monotonic() - began > _SILENCE_SECONDS:
                    raise
                if not told:
                    self._say(f"  Slurm does not answer and is asked again for {_SILENCE_SECONDS} s: {error}")
                told = True
                time.sleep(_POLL)

    def _end(self, number: str) -> str:
        """How a job ended that was not seen to run, as far as Slurm still knows."""
        words = self._run("scontrol", "--oneliner", "show", "job", number).stdout.split()
        state = next((word.partition("=")[2] for word in words if word.startswith("JobState=")), None)
        return f"ended as {state} before its ranks were seen" if state else "ended as it began"

    def _run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        without = [f"--unset={name}" for name in os.environ if _OF_USER.fullmatch(name)]
        return self._reach.run(_HERE, ("env", *without, *words) if without else words)

    def _ask(self, *words: str) -> str:
        if shutil.which(words[0]) is None:
            hint = "run this where Slurm's programs are, such as on a login node"
            raise Unreachable(f"there is no program {words[0]} on PATH", hint=hint)
        done = self._run(*words)
        if done.returncode:
            kind: type[HallmarkError] = Refused if words[0] == "sbatch" else Unreachable
            raise kind(_last(done), where=words[0], hint="`sinfo` and `squeue` say how Slurm is")
        return done.stdout


def _script(plan: GroupPlan) -> str:
    [text] = plan.ranks[0].files.values()
    return text


def _last(done: "subprocess.CompletedProcess[str]") -> str:
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"it ended with {done.returncode}"
