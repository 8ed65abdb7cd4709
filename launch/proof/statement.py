"""The in-toto Statement of a certificate: built from evidence, read back strictly, and checked against itself.

Nothing is signed or verified here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from launch.proof import checksums, dates
from launch.proof.gates import GateResult, passed
from launch.proof.judge import judge
from launch.proof.verdict import Verdict
from recipe.config.gate import parse

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
SCHEMA = 1
PATCH_SET = "patch-set"
# What comes of numbers and texts that are not what a gate measures.
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError)

Json = dict[str, Any]


@dataclass(frozen=True)
class Evidence:
    """What a certificate says.

    `subjects` maps a name (a repository, `config`, or `env` for an environment) to a sha256 in hex, the main one
    first; `configuration` maps `profile`, `argv`, `patch-set`, `model` to one. `hardware` has `kind`, the name in
    configs/hardware, beside the facts of the nodes; `required` are the gates that the profile asks for; `figures`
    is JSON-able; `patches` is the state of every patch by id, None where it is not known; `expires` is when it stops to
    count, None for never.
    """

    subjects: Mapping[str, str]
    configuration: Mapping[str, str]
    profile: str
    cluster: str
    hardware: Mapping[str, Any]
    vllm: str
    required: Sequence[str]
    gates: Sequence[GateResult]
    figures: Mapping[str, Any]
    started: datetime
    finished: datetime
    patches: Mapping[str, str] | None = None
    expires: datetime | None = None


def build(evidence: Evidence) -> Json:
    """The statement as JSON-able data; its result is PASSED when every gate passed and all required ones ran."""
    good = [gate.name for gate in evidence.gates if gate.verdict is Verdict.PASS]
    complete = passed(evidence.gates) and set(evidence.required) <= set(good)
    statement: Json = {
        "_type": STATEMENT,
        "subject": _descriptors(evidence.subjects),
        "predicateType": TEST_RESULT,
        "predicate": {
            "result": "PASSED" if complete else "FAILED",
            "configuration": _descriptors(evidence.configuration),
            "passedTests": good,
            # The predicate's warnings would read as good enough, and inconclusive is not.
            "failedTests": [gate.name for gate in evidence.gates if gate.verdict is not Verdict.PASS],
            "hallmark": {
                "schema": SCHEMA,
                "tool": {"name": "hallmark", "version": version("hallmark-vllm")},
                "profile": evidence.profile,
                "cluster": evidence.cluster,
                "hardware": dict(evidence.hardware),
                "vllm": evidence.vllm,
                "patches": None if evidence.patches is None else dict(evidence.patches),
                "required": list(evidence.required),
                "gates": {gate.name: gate.document() for gate in evidence.gates},
                "figures": dict(evidence.figures),
                "started": dates.text(evidence.started),
                "finished": dates.text(evidence.finished),
                **({"expires": dates.text(evidence.expires)} if evidence.expires else {}),
            },
        },
    }
    statement["predicate"]["hallmark"]["checksums"] = checksums.of(statement)
    return statement


class _Read(BaseModel):
    # Other tools may add fields to a statement, so unknown ones are passed over.
    model_config = ConfigDict(frozen=True, strict=True)


class _Digest(_Read):
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Descriptor(_Read):
    """A name with its digest."""

    name: str
    digest: _Digest


class Gate(_Read):
    """One gate of a certificate, as recorded."""

    verdict: Annotated[Verdict, Field(strict=False)]
    value: float | int | str | None
    bar: Json
    summary: str
    definition: Json
    raw: Json


class Hardware(_Read):
    """The kind of hardware (a name of configs/hardware); the nodes' facts beside it are free."""

    kind: str


class Record(_Read):
    """Hallmark's own part of the predicate."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    profile: str
    cluster: str
    hardware: Hardware
    vllm: str
    required: list[str]
    gates: dict[str, Gate]
    started: Annotated[AwareDatetime, Field(strict=False)]
    finished: Annotated[AwareDatetime, Field(strict=False)]
    expires: Annotated[AwareDatetime | None, Field(strict=False)] = None


class _Predicate(_Read):
    result: str
    configuration: list[Descriptor]
    passed: Annotated[list[str], Field(alias="passedTests")]
    failed: Annotated[list[str], Field(alias="failedTests")]
    hallmark: Record


class Statement(_Read):
    """A statement that has the shape of ours."""

    type_: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")]
    predicate_type: Annotated[Literal["https://in-toto.io/attestation/test-result/v0.1"], Field(alias="predicateType")]
    subject: Annotated[list[Descriptor], Field(min_length=1)]
    predicate: _Predicate

    @property
    def record(self) -> Record:
        """Hallmark's own part."""
        return self.predicate.hallmark

    @property
    def patchset(self) -> str | None:
        """sha256 (hex) of the patch set; None when the subject was not patched by Hallmark."""
        named = {entry.name: entry.digest.sha256 for entry in self.predicate.configuration}
        return named.get(PATCH_SET)


def read(data: Json) -> tuple[Statement | None, list[str]]:
    """Read a statement; None and the reasons when it is not one of ours."""
    predicate = data.get("predicate")
    own = predicate.get("hallmark") if isinstance(predicate, dict) else None
    schema = own.get("schema") if isinstance(own, dict) else None
    if isinstance(own, dict) and (schema != SCHEMA or isinstance(schema, bool)):
        return None, [f"unknown schema: {schema!r}, this version reads {SCHEMA}"]
    try:
        return Statement.model_validate(data), []
    except ValidationError as error:
        return None, [
            f"bad statement: {'.'.join(str(step) for step in problem['loc'])}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)[:10]
        ]


def contradictions(statement: Statement) -> list[str]:
    """Why the statement does not certify: by what it says, and by its raw numbers judged again. Empty when it does."""
    record = statement.record
    reasons = _duplicates(statement)
    if statement.predicate.result != "PASSED":
        reasons.append(f"result not PASSED: it is {statement.predicate.result!r}")
    if not record.gates:
        reasons.append("missing gates: none was run")
    missing = [name for name in record.required if name not in record.gates]
    if missing:
        reasons.append(f"missing gates: {', '.join(missing)}")
    for name, gate in record.gates.items():
        if gate.verdict is not Verdict.PASS:
            word = "failed" if gate.verdict is Verdict.FAIL else "inconclusive"
            reasons.append(f"{word} gate: {name}: {gate.summary}")
        reasons += _judged_again(name, gate, statement.patchset)
    good = {name for name, gate in record.gates.items() if gate.verdict is Verdict.PASS}
    listed = (sorted(statement.predicate.passed), sorted(statement.predicate.failed))
    if listed != (sorted(good), sorted(set(record.gates) - good)):
        reasons.append("disagreement: passedTests and failedTests are not what the gates' verdicts say")
    return reasons


def _duplicates(statement: Statement) -> list[str]:
    reasons = []
    for what, entries in (("subject", statement.subject), ("configuration", statement.predicate.configuration)):
        names = [entry.name for entry in entries]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            reasons.append(f"duplicate {what}: {', '.join(twice)}")
    digests = [entry.digest.sha256 for entry in statement.subject]
    if len(set(digests)) < len(digests):
        reasons.append("duplicate subject: two names have one digest")
    return reasons


def _judged_again(name: str, gate: Gate, patchset: str | None) -> list[str]:
    try:
        again = judge(parse(gate.definition), gate.raw, patchset)
    except _UNREADABLE as error:
        return [f"disagreement: gate {name} cannot be judged again from its raw numbers ({type(error).__name__})"]
    recorded = (gate.verdict, gate.value, gate.bar)
    if recorded == (again.verdict, again.value, again.bar):
        return []
    return [
        f"disagreement: gate {name} is recorded as {gate.verdict} with {gate.value} for {gate.bar}; its definition and"
        f" raw numbers give {again.verdict} with {again.value} for {again.bar}"
    ]


def _descriptors(digests: Mapping[str, str]) -> list[Json]:
    return [{"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()]
