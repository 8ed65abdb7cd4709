"""Adopt what somebody started by hand: look at it, record it as a revision, touch nothing."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from launch.group.journal import Event
from launch.group.transition import WARM_SECONDS, Generation
from launch.ledger.history import History
from launch.ledger.judge import load_gates
from launch.ledger.subject import named
from launch.ledger.work import Work, refusal
from launch.nodes import reach
from launch.nodes.lock import locked, whoami
from launch.nodes.running import foreign
from launch.plan.adopted import Found, rank_plan, warnings
from launch.plan.compare import differences
from launch.plan.container import labels
from launch.plan.group import GroupPlan, RankPlan, Subject, plan_group
from launch.plan.parity import same_on_every_rank
from launch.plan.place import Place
from launch.plan.ranks import api_url, flag, model
from launch.proof.judge_group import LAUNCHED
from recipe.config.check import Checked, check_cluster
from recipe.config.gate import MetricGate
from recipe.errors import HallmarkError, Refused
from recipe.image.plan import patchset_of

_API = "8000"


@dataclass(frozen=True)
class Adoption:
    """What was recorded. `secrets`: variables whose values must come from elsewhere when a rank is made again;
    `differences`: between what runs and what the profile would run; `warnings`: what a person should know."""

    revision: int
    changed: bool
    plan: GroupPlan
    secrets: list[str]
    differences: list[str]
    warnings: list[str]

    def to_json(self) -> dict[str, Any]:
        return {
            "cluster": self.plan.cluster,
            "revision": self.revision,
            "changed": self.changed,
            "image": self.plan.subject.reference,
            "digest": f"sha256:{self.plan.subject.digest}",
            "url": self.plan.api_url,
            "model": self.plan.model_name,
            "ranks": [_document(rank) for rank in self.plan.ranks],
            "secrets": self.secrets,
            "differences": self.differences,
            "warnings": self.warnings,
        }


def adopt(work: Work, profile: str | None, why: str | None) -> Adoption:
    """Record the group that runs on the cluster's nodes without being Hallmark's as the next revision.

    Errors: Refused with every reason when there is no such group, or not exactly one, when its ranks are not one
    program, or when it does not answer.
    """
    if work.cluster.value.engine != "docker":
        where = work.cluster.document.where(("engine",))
        raise HallmarkError(f"the {work.cluster.value.engine} engine has no containers to adopt", where=where)
    checked = check_cluster(work.home, str(work.cluster.path), profile)
    for finding in checked.findings:
        work.say(f"{finding.severity}: {finding}")
    with locked(work.store.lock, "adopt"):
        journal, past = work.look()
        places = [Place(node.name, node.address, node.docker_host) for node in work.cluster.value.nodes]
        by_place = reach.each(foreign, places)
        known = _known(work, past, {it.id for found in by_place for it in found})
        chosen = _group(work, past, by_place)
        plan = _plan(checked, chosen)
        told = [*(line for found in chosen for line in warnings(found)), *same_on_every_rank(plan)]
        plan, left_out = _fitting_gates(work, plan)
        number = known or past.next
        generation = Generation(number, plan, work.store.mark(number), work.store.logs(number))
        if (missing := work.missing(generation, WARM_SECONDS)) is not None:
            hint = "mend it, or end it and `hallmark launch`; only what answers can be brought back"
            raise Refused(f"the group does not answer at {plan.api_url}: {missing}", hint=hint)
        if known is None:
            saved = work.store.save_plan(number, plan)
            content = checked.profile.path.read_bytes()
            work.store.save_profile(content)
            journal.append(
                Event.ADOPTED,
                number,
                kind="adopt",
                profile=plan.profile,
                profile_sha256=hashlib.sha256(content).hexdigest(),
                hardware=checked.hardware.name,
                plan=saved,
                subject=asdict(plan.subject),
                restores=None,
                old=past.running,
                who=whoami(),
                why=why,
            )
    planned = plan_group(checked.profile, checked.cluster, named(checked.profile, checked.cluster, None))
    runs_other = [] if planned.subject.reference == plan.subject.reference else [_image(plan, planned)]
    secrets = sorted({reference for rank in plan.ranks for reference in rank.secrets.values()})
    return Adoption(
        number, known is None, plan, secrets, [*runs_other, *differences(plan, planned)], [*told, *left_out]
    )


def _known(work: Work, past: History, running: set[str]) -> int | None:
    """The revision that has adopted exactly this already. Errors: Refused when something else of the cluster runs."""
    if past.unfinished is not None:
        hint = "`hallmark launch`, `rollback` or `stop` brings it to an end"
        raise Refused(f"revision {past.unfinished} is unfinished", hint=hint)
    if past.running is None:
        return None
    now = work.generation(past.running)
    if not any(rank.alive for rank in work.ranks(now)):
        return None
    ids = {rank.container.adopted.id for rank in now.plan.ranks if rank.container and rank.container.adopted}
    if len(ids) == len(now.plan.ranks) and ids <= running:
        return past.running
    raise Refused(f"revision {past.running} of this cluster runs", hint=f"`hallmark stop {work.cluster.name}` first")


def _group(work: Work, past: History, by_place: Sequence[Sequence[Found]]) -> list[Found]:
    """The one container of each node that is a rank of one group, head first."""
    nodes = work.cluster.value.nodes
    reasons, chosen = list[str](), list[Found]()
    for number, (node, found) in enumerate(zip(nodes, by_place, strict=True)):
        serving = [it for it in found if it.serves]
        fitting = [it for it in serving if it.nnodes == len(nodes)]
        # Several nodes of a cluster may share one engine.
        fitting = [it for it in fitting if it.rank == number] if len(fitting) > 1 else fitting
        if len(fitting) == 1:
            chosen += fitting
        elif fitting:
            names = ", ".join(it.name for it in fitting)
            reasons.append(f"node {node.name}: several containers are rank {number}: {names} — end all but one")
        elif serving:
            names = ", ".join(f"{it.name} (--nnodes {it.nnodes})" for it in serving)
            reasons.append(
                f"node {node.name}: no rank of {len(nodes)}: {names} — correct the nodes of the cluster file"
            )
        else:
            seen = ", ".join(it.name for it in found) or "none"
            reasons.append(f"node {node.name}: no container runs `vllm serve`; others: {seen} — start it, or launch")
    if not reasons:
        reasons = [*_ranks(chosen), *_one_program(chosen)]
    if reasons:
        raise refusal("not adopted; nothing was touched", reasons)
    return sorted(chosen, key=lambda it: it.rank)


def _ranks(chosen: Sequence[Found]) -> Iterable[str]:
    if sorted(it.rank for it in chosen) != list(range(len(chosen))):
        told = ", ".join(f"{it.name} on {it.place.name} is {it.rank}" for it in chosen)
        yield f"their --node-rank must be 0 to {len(chosen) - 1}, once each: {told} — start them again with those"
    for it in chosen:
        if it.headless is (it.rank == 0):
            what = "rank 0 is --headless, so nothing answers" if it.headless else f"rank {it.rank} is not --headless"
            yield f"{it.name} on {it.place.name}: {what} — start it again"
    if len({it.id for it in chosen}) < len(chosen):
        yield "two nodes are one container — correct the addresses or docker-hosts of the cluster file"


def _one_program(chosen: Sequence[Found]) -> Iterable[str]:
    images = {it.container["Image"] for it in chosen}
    if len(images) > 1:
        told = ", ".join(f"{it.place.name} runs {it.container['Image']}" for it in chosen)
        yield f"the ranks are not one image: {told} — start them all from one digest"
    for it in chosen:
        for name in it.secret_flags:
            yield (
                f"{it.name} on {it.place.name}: {name} has a secret on the command line, and a record of it would hold"
                f" it too — start it again with the variable {'VLLM_API_KEY' if name == '--api-key' else 'HF_TOKEN'}"
            )


def _plan(checked: Checked, chosen: Sequence[Found]) -> GroupPlan:
    head, cluster, profile = chosen[0], checked.cluster, checked.profile
    digest = str(head.container["Image"]).removeprefix("sha256:")
    patchset = patchset_of((head.image.get("Config") or {}).get("Labels") or {})
    subject = Subject("image", str(head.container["Config"]["Image"]), patchset, digest=digest)
    ranks = tuple(rank_plan(it, labels(cluster.name, profile.name, patchset, it.rank)) for it in chosen)
    return GroupPlan(
        cluster=cluster.name,
        engine="docker",
        profile=profile.name,
        ranks=ranks,
        api_url=_api_url(checked, head),
        model_name=flag(head.words, "--served-model-name") or model(head.argv) or "",
        subject=subject,
        gates=profile.value.gates,
    )


def _api_url(checked: Checked, head: Found) -> str:
    """As the planner has it, with the head's own --host and --port, or the port that its engine publishes."""
    port = flag(head.words, "--port") or _API
    host = flag(head.words, "--host")
    bound = (head.container["HostConfig"].get("PortBindings") or {}).get(f"{port}/tcp")
    if bound:
        port, host = bound[0]["HostPort"], bound[0].get("HostIp") or None
    nodes = {node.name: node for node in checked.cluster.value.nodes}
    order = (nodes[head.place.name], *(node for node in nodes.values() if node.name != head.place.name))
    ports = checked.cluster.value.ports.model_copy(update={"api": int(port)})
    cluster = checked.cluster.value.model_copy(update={"nodes": order, "ports": ports})
    profile = checked.profile.value.model_copy(update={"serve": {"host": host} if host else {}})
    return api_url(profile, cluster)


def _fitting_gates(work: Work, plan: GroupPlan) -> tuple[GroupPlan, list[str]]:
    """The plan without the gates that ask for the launched patch set, when its image has none."""
    gates = load_gates(work.home, [*plan.gates.trial, *plan.gates.certify])
    if plan.subject.patchset is not None:
        return plan, []
    odd = {name for name, it in gates.items() if isinstance(it, MetricGate) and LAUNCHED in it.labels.values()}
    kept = {kind: tuple(it for it in getattr(plan.gates, kind) if it not in odd) for kind in ("trial", "certify")}
    told = [f"gate {name} is left out: the image was not built by Hallmark, so it has no patch set" for name in odd]
    return replace(plan, gates=plan.gates.model_copy(update=kept)), sorted(told)


def _image(plan: GroupPlan, planned: GroupPlan) -> str:
    runs = f"{plan.subject.reference} (sha256:{plan.subject.digest})"
    return f"image: {runs} runs, the profile's is {planned.subject.reference}"


def _document(rank: RankPlan) -> dict[str, Any]:
    assert rank.container is not None and rank.container.adopted is not None
    return {
        "name": rank.name,
        "rank": rank.rank,
        "container": rank.container.adopted.id,
        "argv": list(rank.argv),
        "env": rank.env,
        "secrets": rank.secrets,
    }
