"""What a report is made from; gathered by launch.ledger.report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launch.proof.certificate import Verification


@dataclass(frozen=True)
class Link:
    """What is known here about a patch: its title, and the upstream thread when it has one."""

    title: str
    upstream: str | None


@dataclass(frozen=True)
class Past:
    """The revision that a certificate is about, as the history tells it."""

    cluster: str
    number: int
    at: str
    who: str
    why: str | None


@dataclass(frozen=True)
class Material:
    """`envelope` is the certificate's file and `found` what it is worth here. `keys`: by id the name and public key
    (PEM) of each trusted signer. `links` by patch id. `past` and `previous`, the certificate before this
    one on the same cluster, only for a report about a cluster; `changes`: what differs between the two revisions."""

    envelope: bytes
    found: Verification
    keys: Mapping[str, tuple[str, str]]
    links: Mapping[str, Link]
    past: Past | None = None
    previous: Verification | None = None
    changes: Sequence[str] = ()
