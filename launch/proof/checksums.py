"""Short checksums of the parts of a statement, kept inside of it: when a signature does not fit, they name what was
changed. They prove nothing, whoever changes a part can change its checksum too; the signature proves.
"""

import hashlib
import json
from typing import Any

_KEY = "checksums"
_LENGTH = 16

Json = dict[str, Any]


def of(statement: Json) -> dict[str, str]:
    """By part: `subject`, `configuration`, `profile`, `gates`, `figures` and what else there is, sixteen hex digits
    each."""
    return {name: _sum(part) for name, part in _parts(statement).items()}


def changed(statement: Json) -> list[str] | None:
    """The parts that are not what their checksums say; None when the statement has no checksums."""
    predicate = statement.get("predicate")
    own = predicate.get("hallmark") if isinstance(predicate, dict) else None
    said = own.get(_KEY) if isinstance(own, dict) else None
    if not isinstance(said, dict):
        return None
    try:
        now = of(statement)
    except RecursionError:
        return None
    return sorted(name for name in {*now, *said} if now.get(name) != said.get(name))


def _parts(statement: Json) -> Json:
    """Every part of the statement once; what stands in an envelope of its own is not told apart further."""
    predicate = statement["predicate"]
    own = predicate["hallmark"]
    parts = {key: value for key, value in statement.items() if key != "predicate"}
    parts |= {key: value for key, value in predicate.items() if key != "hallmark"}
    parts |= {key: value for key, value in own.items() if key != _KEY}
    return parts


def _sum(part: object) -> str:
    # Read back first: numbers as keys become text, which has another order.
    text = json.dumps(json.loads(json.dumps(part)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]
