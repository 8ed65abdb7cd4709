"""Certificates: signing a statement that holds, and saying whether a signed one is true and about what is asked."""

from dataclasses import dataclass
from typing import Any

from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]  # has no __all__

from launch.proof import statement as statements
from launch.proof.envelope import open_, seal
from launch.proof.keys import Trusted
from launch.proof.statement import Json, Statement
from recipe.errors import Problem, Refused


@dataclass(frozen=True)
class Verification:
    """What a certificate is worth here.

    `reasons` begin with a fixed phrase each (`bad signature`, `wrong digest`, …) and are empty when it is valid.
    Statement, digest (`sha256:HEX` of the subject that was asked for, else of the main one), profile and gates
    are what it claims, also when it is not valid; None or empty when it could not be read.
    """

    valid: bool
    reasons: list[str]
    statement: Json | None
    keyid: str | None
    digest: str | None
    profile: str | None
    gates: dict[str, dict[str, Any]]

    def document(self) -> Json:
        """As plain data (CONTRACT: JSON, certificate verify)."""
        return {
            "valid": self.valid,
            "reasons": self.reasons,
            "digest": self.digest,
            "profile": self.profile,
            "gates": self.gates,
        }


def sign(statement: Json, signer: CryptoSigner) -> bytes:
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
) -> Verification:
    """Check an envelope: who signed it, whether its content holds when judged again, and whether it is about what
    is asked for. Never raises for what is in it.

    `digest` is `sha256:HEX` or HEX of any subject; `profile` and `hardware` are names. None leaves that open.
    """
    opened = open_(content, trusted)
    reasons = list(opened.reasons)
    read: Statement | None = None
    if opened.payload is not None:
        read, unreadable = statements.read(opened.payload)
        reasons += unreadable
    if read is None:
        return Verification(False, reasons, opened.payload, opened.keyid, None, None, {})
    reasons += statements.contradictions(read)
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
        keyid=opened.keyid,
        digest=f"sha256:{asked if asked in subjects else subjects[0]}",
        profile=read.record.profile,
        gates={
            name: {"verdict": str(gate.verdict), "value": gate.value, "bar": gate.bar}
            for name, gate in read.record.gates.items()
        },
    )
