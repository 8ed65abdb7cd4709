"""Certificates: signing a statement that holds, and saying whether a signed one is true and about what is asked."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from securesystemslib.signer import Signer  # type: ignore[attr-defined]  # has no __all__

from launch.proof import checksums, dates
from launch.proof import statement as statements
from launch.proof.envelope import Opened, open_, seal
from launch.proof.keys import Trusted
from launch.proof.statement import Json, Statement
from recipe.errors import Problem, Refused


@dataclass(frozen=True)
class Verification:
    """What a certificate is worth here.

    `reasons` begin with a fixed phrase each (`bad signature`, `wrong digest`, …) and are empty when it is valid.
    Statement, digest (`sha256:HEX` of the subject that was asked for, else of the main one), profile and gates
    are what it claims, also when it is not valid; None or empty when it could not be read. `signers` maps the ids of
    the trusted keys that signed it to their names; `expires` is when it stops to count, None for never.
    """

    valid: bool
    reasons: list[str]
    statement: Json | None
    digest: str | None
    profile: str | None
    gates: dict[str, dict[str, Any]]
    signers: dict[str, str] = field(default_factory=dict)
    expires: datetime | None = None

    @property
    def keyid(self) -> str | None:
        """The first of the trusted keys that signed it; None when none did."""
        return next(iter(self.signers), None)

    @property
    def signed(self) -> str:
        """Who vouches for it, for people."""
        return ", ".join(f"{name} ({keyid[:16]}…)" for keyid, name in self.signers.items()) or "nobody"

    def document(self) -> Json:
        """As plain data (CONTRACT: JSON, certificate verify)."""
        return {
            "valid": self.valid,
            "reasons": self.reasons,
            "digest": self.digest,
            "profile": self.profile,
            "gates": self.gates,
            "signers": [{"keyid": keyid, "name": name} for keyid, name in self.signers.items()],
            "expires": dates.text(self.expires) if self.expires else None,
        }


def sign(statement: Json, signer: Signer) -> bytes:
    """Seal a statement of launch.proof.statement.build.

    Errors: Refused, with every reason, when it is not PASSED with all gates passed.
    """
    read, reasons = statements.read(statement)
    if read:
        reasons = statements.contradictions(read)
    if reasons:
        refused = Refused("this cannot be certified")
        hint = "see each gate's own advice, and certify again"
        refused.problems = (Problem("this cannot be certified", hint=hint), *(Problem(reason) for reason in reasons))
        raise refused
    return seal(statement, signer)


def verify(
    content: bytes,
    *,
    trusted: Trusted,
    digest: str | None = None,
    profile: str | None = None,
    hardware: str | None = None,
    now: datetime | None = None,
) -> Verification:
    """Check an envelope: who signed it, whether its content holds when judged again, and whether it is about what
    is asked for. Never raises for what is in it.

    `digest` is `sha256:HEX` or HEX of any subject; `profile` and `hardware` are names. None leaves that open. `now` is
    when it has to count, by default at once.
    """
    opened = open_(content, trusted, now)
    reasons = [*opened.reasons, *_altered(opened)]
    read: Statement | None = None
    if opened.payload is not None:
        read, unreadable = statements.read(opened.payload)
        reasons += unreadable
    if read is None:
        return Verification(False, reasons, opened.payload, None, None, {}, opened.signers)
    reasons += statements.contradictions(read)
    if dates.past(read.record.expires, now):
        reasons.append(f"expired: it counted until {read.record.expires:%Y-%m-%d %H:%M:%S} UTC")
    subjects = [entry.digest.sha256 for entry in read.subject]
    asked = digest.removeprefix("sha256:").lower() if digest is not None else None
    if asked is not None and asked not in subjects:
        reasons.append(f"wrong digest: it is about sha256:{subjects[0]}, not sha256:{asked}")
    if profile is not None and profile != read.record.profile:
        reasons.append(f"wrong profile: it is about {read.record.profile}, not {profile}")
    if hardware is not None and hardware != read.record.hardware.kind:
        reasons.append(f"wrong hardware: it was tested on {read.record.hardware.kind}, not {hardware}")
    return Verification(
        valid=not reasons,
        reasons=reasons,
        statement=opened.payload,
        digest=f"sha256:{asked if asked in subjects else subjects[0]}",
        profile=read.record.profile,
        gates={
            name: {"verdict": str(gate.verdict), "value": gate.value, "bar": gate.bar}
            for name, gate in read.record.gates.items()
        },
        signers=opened.signers,
        expires=read.record.expires,
    )


def _altered(opened: Opened) -> list[str]:
    """What was changed since somebody trusted signed it, as far as that can be said."""
    if not opened.forged or opened.payload is None:
        return []
    parts = checksums.changed(opened.payload)
    if parts is None:
        return ["changed: the payload, or the signature"]
    if not parts:
        return ["changed: the signature, or the type of the payload; its parts are what their checksums say"]
    return [f"changed: {', '.join(parts)}, by the payload's own checksums"]
