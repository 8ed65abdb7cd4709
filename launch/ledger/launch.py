"""launch, rollback, stop: what they decide and record; `group.transition` carries it out."""

import hashlib
import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from launch.engines.words import shell
from launch.group.clock import Step
from launch.group.journal import Event, Journal
from launch.group.transition import STOP_SECONDS, Generation, restore, switch
from launch.ledger import tags
from launch.ledger.history import History, history
from launch.ledger.judge import applicable, judge, load_gates, objections
from launch.ledger.preflight import in_the_way
from launch.ledger.retention import kept_revisions
from launch.ledger.standing import standing
from launch.ledger.status import ranks_now
from launch.ledger.subject import found, planned
from launch.ledger.targets import removed
from launch.ledger.work import Work
from launch.nodes.lock import locked, whoami
from launch.nodes.staging import Staging
from launch.nodes.variables import NUMBERS, number
from launch.plan.group import GroupPlan
from launch.proof.gates import GateResult
from recipe.applier.patchset import PatchSet
from recipe.config.check import Checked, check_cluster
from recipe.config.load import Loaded, load_hardware
from recipe.config.models import Hardware
from recipe.errors import ConfigError, HallmarkError, Mismatch, NeedsOperator, Refused, Unreachable


@dataclass(frozen=True)
class Outcome:
    """How a launch or rollback ended well. `outage`: seconds without an answer, None when nothing served before;
    `tool_seconds`: all time that was not the ranks' own start and stop; `trial`: whether it runs without a certificate;
    `notes`: what a person should know about it."""

    cluster: str
    revision: int
    changed: bool
    plan: GroupPlan
    outage: float | None
    gates: list[GateResult]
    steps: list[Step]
    tool_seconds: float
    url: str
    trial: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def curl(self) -> str:
        """One line for a shell that asks for a completion; a key is read where it is, and not shown."""
        body = json.dumps({"model": self.plan.model_name, "prompt": "Hello", "max_tokens": 16})
        url = shlex.quote(f"{self.url}/v1/completions")
        kind, _, name = self.plan.ranks[0].secrets.get("VLLM_API_KEY", "").partition(":")
        value = f"${name}" if kind == "env" else f"$(cat {shell(name, home=True)})"
        key = f' -H "Authorization: Bearer {value}"' if kind else ""
        return f"curl -s {url}{key} -H 'Content-Type: application/json' -d {shlex.quote(body)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "revision": self.revision,
            "changed": self.changed,
            "url": self.url,
            "model": self.plan.model_name,
            "curl": self.curl,
            "outage_seconds": self.outage,
            "gates": [gate.document() for gate in self.gates],
            "steps": [asdict(step) for step in self.steps],
            "tool_seconds": self.tool_seconds,
            "trial": self.trial,
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Kept:
    """What is kept beside a plan, so that revisions can be compared when the files have long changed."""

    profile: bytes
    patchset: PatchSet | None


@dataclass(frozen=True)
class Wanted:
    """What shall run: the plan, how its subject is put in place, and what the history says about it; `kept` is None for
    what was kept before."""

    plan: GroupPlan
    staging: Staging
    hardware: Loaded[Hardware]
    profile_sha256: str
    kind: str
    restores: int | None
    why: str | None
    patches: list[str] | None
    kept: Kept | None = None


def launch(work: Work, profile: str | None, why: str | None, image: str | None = None) -> Outcome:
    """Bring up the cluster's profile, or another one, in place of what runs; on another image when one is named.

    Errors: ConfigError; Refused when what was before holds; NeedsOperator when it does not; Busy.
    """
    wanted = want(work, profile, why, image)
    with locked(work.store.lock, f"launch {wanted.plan.profile}"):
        journal, past = _settled(work)
        _as_named(work, past, wanted.plan, image)
        known = standing(work, wanted.plan, wanted.hardware.name)
        work.say(known.said)
        outcome = _unchanged(work, past, wanted) or take(work, journal, past, wanted, proven=known.certified)
        return replace(outcome, trial=not known.certified, notes=[known.said])


def want(work: Work, profile: str | None, why: str | None, image: str | None = None) -> Wanted:
    """Plan what a launch would bring up; changes nothing. Errors: ConfigError, Refused."""
    checked = check_cluster(work.home, str(work.cluster.path), profile)
    for finding in checked.findings:
        work.say(f"{finding.severity}: {finding}")
    looked = found(checked, image)
    plan = planned(checked, looked.subject, work.home)
    # Gates are looked up before anything stops, so that a misspelt one cannot take a group down.
    load_gates(work.home, [*plan.gates.trial, *plan.gates.certify])
    _check_numbers(checked, plan)
    content = checked.profile.path.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    kept = Kept(content, looked.patchset)
    return Wanted(plan, looked.staging, checked.hardware, sha256, "launch", None, why, looked.patches, kept)


def rehearse(work: Work, profile: str | None, why: str | None, image: str | None = None) -> GroupPlan:
    """The plan of a launch that would be begun, and whether it is certified; changes nothing.

    Errors: as `launch`, up to its preflight.
    """
    wanted = want(work, profile, why, image)
    _, past = work.look()
    _as_named(work, past, wanted.plan, image)
    _preflight(work, wanted, work.generation(past.running) if past.running is not None else None)
    work.say(standing(work, wanted.plan, wanted.hardware.name).said)
    return wanted.plan


def rehearse_rollback(work: Work, to: str | None, why: str | None) -> Wanted:
    """What a rollback would bring up, with every check that is made before anything is touched.

    Errors: as `rollback`, up to its preflight.
    """
    _, past = work.look()
    if past.unfinished is not None:
        raise Refused(f"revision {past.unfinished} was left unfinished", hint="launch, rollback or stop ends it")
    wanted, _ = _back(work, past, to, why)
    _preflight(work, wanted, work.generation(past.running) if past.running is not None else None)
    return wanted


def _as_named(work: Work, past: History, plan: GroupPlan, image: str | None) -> None:
    """Tell of a tag that was moved since what it named was certified. Errors: Refused for one that promises more."""
    if plan.subject.kind != "image":
        return
    name = image or plan.subject.reference
    moved = tags.renamed(work, past, name, str(plan.subject.digest))
    if moved is None:
        return
    if tags.promises(work, past, name):
        hint = f"`hallmark rollback {work.cluster.name} --to {name}` takes what was certified; name the other by digest"
        raise Refused(moved, where="--image", hint=hint)
    work.say(f"note: {moved}")


def take(work: Work, journal: Journal, past: History, wanted: Wanted, *, proven: bool) -> Outcome:
    """Under the lock: preflight, journal, switch. `proven`: a certificate holds for exactly this.

    Errors: Refused, NeedsOperator.
    """
    old = work.generation(past.running) if past.running is not None else None
    _preflight(work, wanted, old)
    for line in removed(work, past):
        work.say(f"warning: {line}")
    number = past.next
    store = work.store
    saved = store.save_plan(number, wanted.plan)
    if wanted.kept is not None:
        store.save_profile(wanted.kept.profile)
        if wanted.kept.patchset is not None:
            store.save_patchset(wanted.kept.patchset)
    new = Generation(number, wanted.plan, store.mark(number), store.logs(number))
    gates = applicable(load_gates(work.home, list(new.plan.gates.trial)), new.plan, work.say)
    results: list[GateResult] = []

    def stage() -> None:
        journal.append(
            Event.INTENT,
            number,
            kind=wanted.kind,
            profile=wanted.plan.profile,
            profile_sha256=wanted.profile_sha256,
            hardware=wanted.hardware.name,
            plan=saved,
            subject=asdict(wanted.plan.subject),
            restores=wanted.restores,
            patches=wanted.patches,
            old=past.running,
            who=whoami(),
            why=wanted.why,
        )
        wanted.staging.stage(work.say, work.bars)

    def trial() -> list[str]:
        if wrong := _another(work, new):
            return wrong
        results.extend(judge(work.engine, new, gates, work.say))
        return objections(results, proven=proven)

    try:
        outage = switch(
            work.ways(journal, number, len(journal.entries) + 1),
            old,
            new,
            stage=stage,
            trial=trial,
        )
    except HallmarkError as error:
        outcome = replace(_outcome(work, new, new.plan.api_url, changed=True), gates=results)
        error.details = {key: outcome.to_json()[key] for key in ("revision", "gates", "steps", "tool_seconds")}
        raise
    _tidy(work, past, new)
    return replace(_outcome(work, new, _url(work, new), changed=True), outage=outage, gates=results)


def _another(work: Work, new: Generation) -> list[str]:
    """In what the group that came up is not the generation that was planned."""
    return [
        rank.wrong or f"rank {rank.rank} ({rank.name}) is not what was planned: {'; '.join(rank.drift)}"
        for rank in ranks_now(work, new)
        if rank.wrong or rank.drift
    ]


def rollback(work: Work, to: str | None, why: str | None) -> Outcome:
    """Launch an earlier certified revision: `to` is its number, the start of its digest, or a tag; by default the last
    certified one that is not running.

    Errors: Refused when there is none, or its certificate or environment does not hold; nothing is touched then.
    """
    with locked(work.store.lock, f"rollback {to or ''}".strip()):
        journal, past = _settled(work)
        wanted, notes = _back(work, past, to, why)
        outcome = _unchanged(work, past, wanted) or take(work, journal, past, wanted, proven=True)
        return replace(outcome, notes=notes)


def _back(work: Work, past: History, to: str | None, why: str | None) -> tuple[Wanted, list[str]]:
    """What a rollback brings up, and what is odd about it, which is told. Errors: Refused."""
    from launch.ledger.certified import restorable

    target = restorable(work, past, to)
    revision = target.revision
    work.say(f"revision {revision.number} is certified: {revision.certificate}")
    for note in target.notes:
        work.say(f"note: {note}")
    # Nothing is read from the profile: that it is broken now may be why somebody rolls back.
    hardware = load_hardware(work.home, revision.hardware)
    wanted = Wanted(
        target.plan,
        target.staging,
        hardware,
        revision.profile_sha256,
        "rollback",
        revision.number,
        why,
        revision.patches,
    )
    return wanted, target.notes


def stop(work: Work) -> list[int]:
    """Stop every rank of the cluster, whatever an earlier command left, and remove its containers; returns the
    processes' revisions.

    Errors: NeedsOperator when something cannot be ended; Unreachable when a node is not reached, after all others were
    stopped; the history does not call the group stopped then.
    """
    with locked(work.store.lock, "stop", partly=True):
        if not work.store.lock.head_reached:
            raise _stop_without_head(work)
        journal, past = work.look()
        recent = list(_known(work, past))
        stopped = _to_stop(work, past, recent)
        if not stopped and past.running is None and past.unfinished is None:
            return []
        revision = past.running or past.unfinished or stopped[0]
        intent = journal.append(Event.INTENT, revision, kind="stop", who=whoami())
        lost = _halt(work, [work.generation(number) for number in stopped])
        if lost is not None:
            raise _partly(work, lost)
        journal.append(Event.STOPPED, revision, intent.operation)
        return stopped


def _to_stop(work: Work, past: History, recent: list[Generation]) -> list[int]:
    """The revisions of which something runs, or may run on a node that is not reached."""
    if not past.revisions:
        return []
    try:
        running = work.engine.groups(work.store.owner(), [it.plan for it in recent])
        # Containers without labels are only known by their plans.
        running |= {it.mark for it in recent if _is_adopted(it.plan) and any(rank.alive for rank in work.ranks(it))}
    except Unreachable:
        running = {it.mark for it in recent}
    return [number for number in past.revisions if work.store.mark(number) in running]


def _halt(work: Work, generations: list[Generation]) -> Unreachable | None:
    """Stop them wherever they run, and keep their logs; the error of the nodes that were not reached, if any."""
    lost: Unreachable | None = None
    try:
        for it in generations:
            with work.clock.step(f"stop revision {it.revision}", "group"):
                try:
                    work.engine.stop(it.plan, it.mark, STOP_SECONDS)
                except Unreachable as error:
                    lost = error
            work.engine.collect(it.plan, it.mark, it.logs)
        if lost is None:
            work.engine.tidy(work.store.owner(), set(), [it.plan for it in generations])
    except KeyboardInterrupt:
        raise NeedsOperator("interrupted, and some ranks may still run", hint="run `hallmark stop` again") from None
    return lost


def _partly(work: Work, lost: Unreachable) -> Unreachable:
    told = Unreachable(
        f"what ran on the nodes that are reached was stopped; {lost}",
        hint="what runs on the others stays: run `hallmark stop` again when they are back",
    )
    told.details = {"unreached": sorted(work.store.lock.unreached)}
    return told


def _stop_without_head(work: Work) -> Unreachable:
    """The other nodes' ranks are known from what this machine read of the head's records last."""
    past = history(work.store.seen().entries)
    number = past.unfinished or past.running
    if number is None:
        [head, *_] = work.store.lock.unreached.values()
        return Unreachable(f"nothing is known here of what may run: {head}")
    revisions = [past.revisions[it] for it in _recent(past)]
    plans = {it.number: work.store.load_plan(it.number, it.plan) for it in revisions}
    generations = [Generation(it, plan, work.store.mark(it), work.store.logs(it)) for it, plan in plans.items()]
    lost = _halt(work, generations)
    return _partly(work, lost or Unreachable("the head was not reached to record it"))


def _known(work: Work, past: History) -> Iterator[Generation]:
    """The recent generations; one that is to run must be known, of an earlier one a lost plan is told."""
    for revision in _recent(past):
        try:
            yield work.generation(revision)
        except Mismatch as error:
            if revision in (past.running, past.unfinished):
                raise
            work.say(f"warning: what revision {revision} left is not looked for: {error}")


def _is_adopted(plan: GroupPlan) -> bool:
    return any(rank.container is not None and rank.container.adopted is not None for rank in plan.ranks)


def _unchanged(work: Work, past: History, wanted: Wanted) -> Outcome | None:
    """The outcome when exactly this runs already, as planned, and answers."""
    if past.running is None:
        return None
    now = work.generation(past.running)
    # The name under which an image was found is no part of what runs.
    same = wanted.plan.subject.is_same(now.plan.subject) and now.plan == replace(wanted.plan, subject=now.plan.subject)
    if not same or any(rank.wrong or rank.drift for rank in ranks_now(work, now)):
        return None
    # One that others keep busy is not started again for it.
    if not work.heartbeat(now).alive:
        return None
    work.say(f"nothing to do: revision {now.revision} runs exactly this and answers")
    return _outcome(work, now, _url(work, now), changed=False)


def _check_numbers(checked: Checked, plan: GroupPlan) -> None:
    for name in NUMBERS:
        for rank in plan.ranks:
            try:
                number(rank.env, name, 0)
            except HallmarkError as error:
                [problem] = error.problems
                raise ConfigError([replace(problem, where=checked.profile.document.where(("env", name)))]) from None


def _settled(work: Work) -> tuple[Journal, History]:
    """The journal and history once a command that was killed half-way is brought to an end."""
    journal, past = work.look()
    if past.unfinished is None:
        return journal, past
    revision = past.revisions[past.unfinished]
    work.say(f"revision {revision.number} was left at {revision.state.upper()}; bringing back what was before")
    old = work.generation(revision.old) if revision.old is not None else None
    ways = work.ways(journal, revision.number, revision.operation)
    restore(ways, old, work.generation(revision.number), "the command was killed")
    return journal, history(journal.entries)


def _preflight(work: Work, wanted: Wanted, old: Generation | None) -> None:
    with work.clock.step("preflight"):
        problems = in_the_way(work, wanted.plan, wanted.hardware, wanted.staging, old)
    if problems:
        error = Refused("nothing was changed")
        error.problems = (*dict.fromkeys(problems), *error.problems)
        raise error


def _recent(past: History) -> list[int]:
    """The revisions of which something may run or lie about on nodes that the cluster file no longer names."""
    last = past.unfinished or past.running or max(past.revisions, default=None)
    chain = [last, past.running, past.revisions[last].old if last is not None else None]
    return sorted({number for number in chain if number is not None})


def _tidy(work: Work, past: History, new: Generation) -> None:
    """Remove what older generations left on the nodes, but what the cluster may still go back to: stopped ranks keep
    their images from being cleaned away by others."""
    _, now = work.look()
    keep = {new.mark, *(work.store.mark(number) for number in kept_revisions(now))}
    try:
        work.engine.tidy(work.store.owner(), keep, [work.generation(number).plan for number in _recent(past)])
    except HallmarkError as error:
        # The new group serves, whatever else is left lying about.
        work.say(f"warning: what earlier revisions left could not be removed: {error}")


def _url(work: Work, generation: Generation) -> str:
    return work.engine.api_url(generation.plan, generation.mark)


def _outcome(work: Work, generation: Generation, url: str, *, changed: bool) -> Outcome:
    return Outcome(
        work.cluster.name,
        generation.revision,
        changed,
        generation.plan,
        None,
        [],
        work.clock.steps,
        work.clock.tool_seconds(),
        url,
    )
