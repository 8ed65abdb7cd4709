"""preflight: what stands in the way of a launch, as a command of its own and before each launch."""

from dataclasses import dataclass
from typing import Any

from launch.engines.jobs import SlurmEngine
from launch.engines.secrets import missing
from launch.group.transition import Generation
from launch.ledger.subject import found, named, planned, surveyed
from launch.ledger.work import Work
from launch.nodes.preflight import jobs
from launch.nodes.preflight.collective import all_reduce
from launch.nodes.preflight.local import program
from launch.nodes.preflight.meeting import bandwidth
from launch.nodes.preflight.run import everything
from launch.nodes.preflight.site import Found, Site, Verdict, passed
from launch.nodes.staging import Staging
from launch.plan.group import GroupPlan
from recipe.config.check import check_cluster
from recipe.config.load import Loaded
from recipe.config.models import Hardware
from recipe.errors import HallmarkError, Problem


@dataclass(frozen=True)
class Report:
    """Everything that was found about the nodes of a cluster."""

    cluster: str
    profile: str
    found: list[Found]

    @property
    def verdict(self) -> Verdict:
        """The worst one."""
        kinds = {it.verdict for it in self.found}
        return next((kind for kind in (Verdict.FAIL, Verdict.WARN) if kind in kinds), Verdict.PASS)

    def to_json(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "profile": self.profile,
            "verdict": self.verdict.value,
            "checks": [it.to_json() for it in self.found],
        }


def preflight(work: Work, profile: str | None, *, measure: bool = False, least: float | None = None) -> Report:
    """Look at every node of the cluster; changes nothing. `measure`: also the fabric's bandwidth, against `least`
    Gbit/s, and that of NCCL.

    Errors: ConfigError; Unreachable when a node does not answer.
    """
    checked = check_cluster(work.home, str(work.cluster.path), profile)
    for finding in checked.findings:
        work.say(f"{finding.severity}: {finding}")
    extra: list[Found] = []
    staging: Staging | None = None
    try:
        looked = found(checked, None)
        subject, staging = looked.subject, looked.staging
        extra.append(passed("image" if subject.kind == "image" else "program", None, subject.reference))
    except HallmarkError as error:
        # The nodes can be looked at without it, also where this machine has no engine.
        subject = named(checked.profile, checked.cluster, None)
        extra += [_failed("image" if subject.kind == "image" else "program", it) for it in error.problems]
    plan = planned(checked, subject, work.home)
    _, past = work.look()
    old = work.generation(past.running) if past.running is not None else None
    if isinstance(work.engine, SlurmEngine):
        return Report(work.cluster.name, plan.profile, [*extra, *_job(work.engine, work, plan, old)])
    site = surveyed(work, plan, checked.hardware, staging, old)
    said = [*extra, *_all(site, old)]
    if measure:
        said += [*bandwidth(site, least), *all_reduce(site)]
    return Report(work.cluster.name, plan.profile, said)


def in_the_way(
    work: Work, plan: GroupPlan, hardware: Loaded[Hardware], staging: Staging, old: Generation | None
) -> list[Problem]:
    """What keeps a plan from being launched; says what only may. Errors: Unreachable."""
    if isinstance(work.engine, SlurmEngine):
        said = _job(work.engine, work, plan, old)
    else:
        said = _all(surveyed(work, plan, hardware, staging, old), old)
    for it in said:
        if it.verdict is Verdict.WARN:
            work.say(f"warning: {it.problem}")
    return [it.problem for it in said if it.verdict is Verdict.FAIL]


def _all(site: Site, old: Generation | None) -> list[Found]:
    return [*program(site.plan), *everything(site), *_secrets(site.plan, old)]


def _job(engine: SlurmEngine, work: Work, plan: GroupPlan, old: Generation | None) -> list[Found]:
    found = [_failed("job", it) for it in jobs.problems(plan, work.cluster, engine.refusal)]
    return [*(found or [passed("job", None, "Slurm would take it")]), *_secrets(plan, old)]


def _secrets(plan: GroupPlan, old: Generation | None) -> list[Found]:
    # Also those of the old group, which could not be brought back without them.
    plans = [plan, *([old.plan] if old else [])]
    return [_failed("secrets", it) for it in dict.fromkeys(it for plan in plans for it in missing(plan))]


def _failed(check: str, problem: Problem) -> Found:
    return Found(check, None, Verdict.FAIL, problem.message, problem.hint, problem.where)
