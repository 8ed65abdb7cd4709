"""Certify what runs: the profile's full gates, the facts around them, one signed statement."""

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from launch.group.journal import Event
from launch.group.transition import Generation
from launch.ledger.judge import applicable, judge, load_gates, objections
from launch.ledger.patched import states
from launch.ledger.published import published
from launch.ledger.status import ranks_now
from launch.ledger.verified import unverified
from launch.ledger.work import Work, api_key, refusal
from launch.nodes.facts import machine, model_digest
from launch.nodes.lock import locked
from launch.plan.group import GroupPlan
from launch.proof import certificate, dates, keys, throughput
from launch.proof.client import ApiError, Client
from launch.proof.gates import GateResult
from launch.proof.statement import PATCH_SET, Evidence, build
from recipe.errors import HallmarkError, Refused

# An image is known by the digest of its configuration, which is the same on every engine.
_SUBJECTS = {"image": "config", "env": "env"}
_FIGURE_PROMPT = "one two three four"
_FIGURE_TOKENS = 96


@dataclass(frozen=True)
class Certified:
    """The certificate of a revision: its file, the subject's digest, the gates, and single-stream tok/s; in a registry
    also the image that it is attached to, and the tag that names that image from now on; until when it counts."""

    revision: int
    digest: str
    path: Path
    gates: list[GateResult]
    tok_s: float
    attached: str | None
    tag: str | None
    expires: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "revision": self.revision,
            "digest": f"sha256:{self.digest}",
            "certificate": str(self.path),
            "gates": {
                gate.name: {"verdict": gate.verdict, "value": gate.value, "bar": gate.bar} for gate in self.gates
            },
            "tok_s": self.tok_s,
            "attached": self.attached,
            "tag": self.tag,
            "expires": dates.text(self.expires) if self.expires else None,
        }


def certify(work: Work, key: str | None, expires: str | None = None) -> Certified:
    """Run the full gates on the running group, sign, and record; the group is only asked, never changed. It counts
    until `expires` (days or a date; `never`), by default as long as the profile says.

    Errors: Refused when nothing runs, a rank is not as planned, a check of the image
    was skipped, or a gate does not pass; HallmarkError without a key;
    Unreachable when the cluster's registry is not reached, before the gates, or with the certificate in history.
    """
    signer = keys.signer(key or _only_key())
    if expires not in (None, "never"):
        dates.until(str(expires), where="--expires")
    with locked(work.store.lock, "certify"):
        journal, past = work.look()
        if past.running is None or past.unfinished is not None:
            raise Refused("nothing runs that could be certified", hint=f"hallmark launch {work.cluster.name}")
        generation = work.generation(past.running)
        _as_planned(work, generation)
        if missing := unverified(generation.plan):
            raise refusal("not certified: the image was built without some of its checks; the group goes on", missing)
        image = published(work, past.revisions[past.running], generation.plan)
        started = datetime.now(UTC)
        gates = applicable(load_gates(work.home, list(generation.plan.gates.certify)), generation.plan, work.say)
        required = list(gates)
        results = judge(work.engine, generation, gates, work.say)
        if reasons := objections(results):
            raise refusal("not certified; the group goes on", reasons)
        revision = past.revisions[past.running]
        plan = generation.plan
        digest: str = revision.subject["digest"]
        try:
            with Client(work.engine.api_url(plan, generation.mark), api_key=api_key(plan)) as client:
                figure = throughput.single_stream(client, plan.model_name, _FIGURE_PROMPT, tokens=_FIGURE_TOKENS)
                version = client.version(deadline=30)
        except ApiError as error:
            raise Refused(f"not certified: the group stopped answering: {error}") from None
        evidence = Evidence(
            subjects={_SUBJECTS[plan.subject.kind]: digest, **(image.subject if image else {})},
            configuration={
                "profile": revision.profile_sha256,
                "argv": argv_digest(plan),
                **({PATCH_SET: plan.subject.patchset} if plan.subject.patchset else {}),
                "model": model_digest(plan),
            },
            profile=plan.profile,
            cluster=work.cluster.name,
            hardware={"kind": revision.hardware, **machine(plan.ranks[0].place)},
            vllm=version,
            required=required,
            gates=results,
            figures={"single_stream": figure.document()},
            started=started,
            finished=datetime.now(UTC),
            patches=states(plan),
            expires=_end(plan, expires),
        )
        envelope = certificate.sign(build(evidence), signer)
        path = _store(work.store.certificates, digest, past.running, envelope)
        journal.append(
            Event.CERTIFIED,
            past.running,
            digest=digest,
            certificate=path.name,
            sha256=_sha256(envelope),
            image=image.name if image else None,
        )
        tag = image.certified(plan.profile, envelope) if image else None
    name = image.name if image else None
    return Certified(past.running, digest, path, results, figure.tok_s, name, tag, evidence.expires)


def argv_digest(plan: GroupPlan) -> str:
    """sha256 over everything that the ranks run: arguments, environments, references to secrets."""
    ranks = [asdict(rank) for rank in plan.ranks]
    # Where there are none the digest is that of plans which did not know them.
    ranks = [{key: value for key, value in rank.items() if key != "homes" or value} for rank in ranks]
    return _sha256(json.dumps(ranks, sort_keys=True).encode())


def _end(plan: GroupPlan, asked: str | None) -> datetime | None:
    days = plan.gates.expires
    text = asked or (str(days) if days else "never")
    return None if text == "never" else dates.until(text, where="--expires")


def _as_planned(work: Work, generation: Generation) -> None:
    wrong = [
        rank.wrong or f"rank {rank.rank} ({rank.name}): {'; '.join(rank.drift)}"
        for rank in ranks_now(work, generation)
        if rank.wrong or rank.drift
    ]
    if wrong:
        raise refusal("not certified: the group is not as planned", wrong)


def _store(folder: Path, digest: str, revision: int, envelope: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{digest}.json"
    number = revision
    while path.exists():
        # Certified before: that certificate stays what history says it was.
        path = folder / f"{digest}-r{number}.json"
        number += 1
    temporary = path.with_suffix(".new")
    temporary.write_bytes(envelope)
    temporary.rename(path)
    return path


def _only_key() -> str:
    found = keys.own()
    if len(found) == 1:
        return found[0]
    if not found:
        raise HallmarkError("there is no key to sign with", hint="hallmark key new NAME")
    raise HallmarkError("there is more than one key", where="--key", hint=f"name one of {', '.join(found)}")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
