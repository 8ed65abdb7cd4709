"""What the tag of an image means to a cluster: what was certified under it, before what it names now.

A tag can be moved by anybody who may push; a certificate cannot. So the two are compared, and the certificate wins.
"""

import re
from contextlib import suppress
from dataclasses import dataclass

from launch.ledger.history import History, Revision
from launch.ledger.subject import registry_of
from launch.ledger.work import Work
from launch.nodes.image import resolve
from recipe.errors import HallmarkError
from recipe.image.plan import REPOSITORY
from recipe.image.reference import certified_tag, remote

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Meaning:
    """`digest`: sha256:HEX of the image's configuration; `revision`: the certified one that the tag stands for, None
    when it is only what the tag names now; `notes`: what is odd about it."""

    digest: str
    revision: int | None
    notes: list[str]


def meaning(work: Work, past: History, text: str) -> Meaning | None:
    """What `TAG`, `REPO:TAG` or `REPO@sha256:HEX` means; None when it means nothing.

    Errors: Unreachable when only an unreached registry could say it.
    """
    name = _whole(work, text)
    certified = _certified(work, past, text, name)
    if certified is None:
        now = _names(work, name)
        return Meaning(now, None, []) if now is not None else None
    digest = f"sha256:{certified.subject['digest']}"
    try:
        now = _names(work, name)
    except HallmarkError as error:
        return Meaning(digest, certified.number, [f"what {name} names now is not known: {error}"])
    if now in (digest, None):
        # Without a registry a certified tag is a word for what the history says.
        return Meaning(digest, certified.number, [])
    was = f"certified was {digest} (revision {certified.number}, since {certified.at[:19]})"
    return Meaning(digest, certified.number, [f"{name} names {now} now, but {was}: that is taken, not the tag"])


def moved(work: Work, past: History, profile: str) -> list[str]:
    """What is odd about the certified tag of a profile, when the cluster has a registry."""
    if registry_of(work.cluster) is None or profile not in past.certified:
        return []
    found = meaning(work, past, certified_tag(profile))
    return found.notes if found is not None else []


def renamed(work: Work, past: History, text: str, digest: str) -> str | None:
    """What is odd about an image (`digest` in hex) that is launched under the name `text`: that another one was
    certified under it; None when that is not so."""
    certified = _certified(work, past, text, _whole(work, text))
    if certified is None or certified.subject["digest"] == digest:
        return None
    was = f"sha256:{certified.subject['digest']} (revision {certified.number})"
    return f"tag moved: {text} was certified as {was}, and names sha256:{digest} now"


def promises(work: Work, past: History, text: str) -> bool:
    """Whether a name says that what it names was certified: only the certified tags do."""
    return _whole(work, text) in (_whole(work, certified_tag(profile)) for profile in past.certified)


def _whole(work: Work, text: str) -> str:
    """A bare tag or manifest's digest is one of the cluster's registry, or a tag of the images that are built here."""
    registry = registry_of(work.cluster)
    if registry is not None and _DIGEST.fullmatch(text):
        return registry.at(text)
    if ":" in text or "/" in text or "@" in text:
        return text
    return f"{registry.repository if registry else REPOSITORY}:{text}"


def _certified(work: Work, past: History, text: str, name: str) -> Revision | None:
    for profile, number in past.certified.items():
        if name == _whole(work, certified_tag(profile)):
            return past.revisions[number]
    launched = [it for it in past.revisions.values() if it.certificate and it.subject["reference"] in (text, name)]
    return launched[-1] if launched else None


def _names(work: Work, name: str) -> str | None:
    """The digest of the image that has this name now. Errors: Unreachable."""
    if work.cluster.value.engine != "docker":
        return None
    there = remote(name)
    if there is not None and there.name is not None:
        from recipe.image.registry import Repository

        with Repository(there) as repository:
            found = repository.image(there.name)
        return found[1].config_digest if found else None
    with suppress(HallmarkError):
        return resolve(name, None, None, "").config_digest
    return None
