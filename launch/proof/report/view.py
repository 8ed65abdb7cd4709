"""What a report says, as plain data for the template. Pure.

A certificate that is not valid is shown too: what it claims, under the reasons why it is not to be believed.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from launch.proof.report.material import Link, Material

Json = dict[str, Any]

_DIGITS = 4
_HEX = re.compile(r"\b[0-9a-f]{64}\b")


def view(material: Material) -> Json:
    """The sections of the page, of a certificate that has a statement and gates."""
    found = material.found
    assert found.statement is not None, "page refuses a certificate without one"
    predicate = found.statement["predicate"]
    record = predicate["hallmark"]
    # One that cannot be read has nothing to compare.
    earlier = material.previous.statement if material.previous and material.previous.gates else None
    before = earlier["predicate"]["hallmark"] if earlier else None
    return {
        "valid": found.valid,
        "reasons": found.reasons,
        "profile": record["profile"],
        "digest": found.digest,
        "facts": {**_facts(material, record), **dict(_flat(record["hardware"]))},
        "subjects": _digests(found.statement["subject"]),
        "configuration": _digests(predicate["configuration"]),
        "patches": _patches(record.get("patches"), material.links),
        "gates": [_gate(name, gate, before) for name, gate in record["gates"].items()],
        "logs": [
            _signals(name, gate) for name, gate in record["gates"].items() if gate["definition"]["kind"] == "logs"
        ],
        "previous": _previous(material, found.statement, earlier),
        "envelope": base64.b64encode(material.envelope).decode(),
        "keys": [{"id": keyid, "name": name, "pem": pem} for keyid, (name, pem) in material.keys.items()],
        "kept": _readable(found.statement),
    }


def _facts(material: Material, record: Json) -> dict[str, str]:
    until = material.found.expires
    facts = {
        "vLLM": record["vllm"],
        "cluster": record["cluster"],
        "tested": f"{record['started']} to {record['finished']}",
        "counts": f"until {until:%Y-%m-%d %H:%M} UTC" if until else "for good",
        "signed by": material.found.signed,
        "made by": f"{record['tool']['name']} {record['tool']['version']}",
    }
    if (past := material.past) is not None:
        why = f", {past.why!r}" if past.why else ""
        facts["revision"] = f"{past.number} of {past.cluster}, {past.at}, by {past.who}{why}"
    return facts


def _digests(entries: list[Json]) -> dict[str, str]:
    return {entry["name"]: f"sha256:{entry['digest']['sha256']}" for entry in entries}


def _flat(data: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _flat(value, f"{name}.{key}" if name else str(key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from _flat(value, f"{name}[{number}]")
    else:
        yield name, "" if data is None else str(data)


def _patches(states: Mapping[str, str] | None, links: Mapping[str, Link]) -> list[Json] | None:
    if states is None:
        return None
    nothing = Link("", None)
    return [
        {"id": id, "state": state, "title": links.get(id, nothing).title, "upstream": links.get(id, nothing).upstream}
        for id, state in states.items()
    ]


def _gate(name: str, gate: Json, before: Json | None) -> Json:
    earlier = before["gates"].get(name) if before else None
    return {
        "name": name,
        "kind": gate["definition"]["kind"],
        "means": gate["definition"]["summary"],
        "verdict": gate["verdict"],
        "value": number(gate["value"]),
        "bar": ", ".join(f"{key} {number(value)}" for key, value in gate["bar"].items() if value not in (None, {})),
        "before": number(earlier["value"]) if earlier else "",
        "said": gate["summary"],
        "raw": _readable(gate["raw"]),
    }


def _signals(name: str, gate: Json) -> Json:
    rows = []
    for kind in ("required", "forbidden"):
        for signal, seen in zip(gate["definition"][kind], gate["raw"].get(kind, []), strict=False):
            counts = ", ".join(f"{where['node']} {where['count']}" for where in seen)
            first = next((where["first"] for where in seen if where["first"]), None)
            rows.append({"kind": kind, "pattern": signal["pattern"], "because": signal["because"]})
            rows[-1] |= {"seen": counts, "line": first}
    return {"name": name, "rows": rows}


def _previous(material: Material, now: Json, then: Json | None) -> Json | None:
    if material.previous is None or then is None:
        return None
    return {
        "digest": material.previous.digest,
        "finished": then["predicate"]["hallmark"]["finished"],
        "valid": material.previous.valid,
        "rows": list(_changed(then, now)),
        "changes": list(material.changes),
    }


def _changed(then: Json, now: Json) -> Iterator[tuple[str, str, str]]:
    """What differs between two statements: its name, the value before, the value now."""
    old, new = then["predicate"], now["predicate"]
    plain = [("vLLM", old["hallmark"]["vllm"], new["hallmark"]["vllm"])]
    plain += [("profile", old["hallmark"]["profile"], new["hallmark"]["profile"])]
    plain += _pairs("digest of ", _digests(old["configuration"]), _digests(new["configuration"]))
    plain += _pairs("patch ", old["hallmark"].get("patches") or {}, new["hallmark"].get("patches") or {})
    gates = {which: _values(side["hallmark"]["gates"]) for which, side in (("old", old), ("new", new))}
    plain += _pairs("gate ", gates["old"], gates["new"])
    yield from ((name, short(before), short(after)) for name, before, after in plain if before != after)


def _values(gates: Json) -> dict[str, str]:
    return {name: f"{gate['verdict']} {number(gate['value'])}".strip() for name, gate in gates.items()}


def _pairs(prefix: str, old: Mapping[str, str], new: Mapping[str, str]) -> list[tuple[str, str, str]]:
    names = dict.fromkeys((*old, *new))
    return [(f"{prefix}{name}", old.get(name, "–"), new.get(name, "–")) for name in names]


def number(value: Any) -> str:
    """A figure as people read it; what is none stays as it is."""
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    if isinstance(value, dict):
        return " ".join(f"{key}:{number(one)}" for key, one in value.items())
    return "" if value is None else short(str(value))


def short(text: str) -> str:
    """Digests cut to what tells two apart; other text as it is."""
    return _HEX.sub(lambda digest: digest[0][:12] + "…", text)


def _readable(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False)
