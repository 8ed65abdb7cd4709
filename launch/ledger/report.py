"""Gathers what a report shows: of a cluster, the certificate of what runs and the one before; or one certificate."""

import hashlib
from dataclasses import replace
from pathlib import Path

from launch.ledger.changes import changes, lines
from launch.ledger.history import History, Revision
from launch.ledger.record import record
from launch.ledger.work import Work
from launch.proof import keys
from launch.proof.certificate import Verification, verify
from launch.proof.report.material import Link, Material, Past
from recipe.catalogue.compile import catalogue
from recipe.catalogue.model import Upstream
from recipe.errors import ConfigError, Mismatch, Refused

_THREADS = "https://github.com/vllm-project/vllm"


def of_certificate(envelope: bytes, found: Verification) -> Material:
    """A certificate by itself."""
    return Material(envelope, found, _keys(found), _links())


def of_cluster(work: Work) -> Material:
    """The certificate of what runs, beside the one before it; of the last certified revision when what runs has none.

    Errors: Refused when nothing was certified; Mismatch when the certificate is missing from the records.
    """
    _, past = work.look()
    revision = _shown(work, past)
    if revision.number != past.running:
        why = "nothing runs" if past.running is None else "what runs is not certified"
        work.say(f"warning: {why}; this is about revision {revision.number}")
    envelope, found = _certificate(work, revision)
    before = [one for one in _certified(past) if one.number < revision.number]
    earlier = [one for one in before if one.certificate != revision.certificate]
    return Material(
        envelope,
        found,
        _keys(found),
        _links(),
        Past(work.cluster.name, revision.number, revision.at, revision.who, revision.why),
        _before(work, earlier[-1]) if earlier else None,
        _changes(work, past, earlier[-1], revision) if earlier else (),
    )


def _shown(work: Work, past: History) -> Revision:
    certified = _certified(past)
    if not certified:
        raise Refused(f"no revision of {work.cluster.name} is certified", hint=f"hallmark certify {work.cluster.name}")
    return next((one for one in certified if one.number == past.running), certified[-1])


def _certified(past: History) -> list[Revision]:
    return [past.revisions[number] for number in sorted(past.revisions) if past.revisions[number].certificate]


def _changes(work: Work, past: History, old: Revision, new: Revision) -> list[str]:
    try:
        return list(lines(changes(record(work, past, old.number), record(work, past, new.number))))
    except Mismatch as error:
        # The certificates say what they say without it.
        work.say(f"warning: what changed since revision {old.number} is not shown: {error}")
        return []


def _certificate(work: Work, revision: Revision) -> tuple[bytes, Verification]:
    path: Path = work.store.certificates / str(revision.certificate)
    try:
        envelope = path.read_bytes()
    except OSError as error:
        message = f"the certificate of revision {revision.number} cannot be read: {error.strerror}"
        raise Mismatch(message, where=str(path)) from None
    digest, profile, hardware = revision.subject["digest"], revision.profile, revision.hardware
    found = verify(envelope, trusted=keys.trusted(), digest=digest, profile=profile, hardware=hardware)
    if hashlib.sha256(envelope).hexdigest() != revision.certificate_sha256:
        edited = f"edited: {path.name} is not what the history says was written"
        found = replace(found, valid=False, reasons=[*found.reasons, edited])
    if found.statement is None or not found.gates:
        message = f"the certificate of revision {revision.number} was damaged: {found.reasons[0]}"
        raise Mismatch(message, where=str(path), hint="put it back; the other nodes and the registry have copies")
    return envelope, found


def _before(work: Work, revision: Revision) -> Verification | None:
    try:
        return _certificate(work, revision)[1]
    except Mismatch as error:
        work.say(f"warning: what runs is shown without the certificate before it: {error}")
        return None


def _keys(found: Verification) -> dict[str, tuple[str, str]]:
    trusted = keys.trusted()
    return {keyid: (trusted[keyid].name, trusted[keyid].pem) for keyid in found.signers}


def _links() -> dict[str, Link]:
    """Titles and threads of the patches that this checkout knows; a report does without those of a broken one."""
    try:
        found = [patch.value for patch in catalogue()]
    except ConfigError:
        return {}
    return {patch.id: Link(patch.title, _thread(patch.upstream)) for patch in found}


def _thread(upstream: Upstream) -> str | None:
    if upstream.pr is not None:
        return f"{_THREADS}/pull/{upstream.pr}"
    return f"{_THREADS}/issues/{upstream.issue}" if upstream.issue is not None else None
