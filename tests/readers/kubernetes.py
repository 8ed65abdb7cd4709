"""Reads a LeaderWorkerSet as kubelet and the controller do: `$(NAME)` of variables before it, `$$` for a dollar."""

import re
from typing import Any

import yaml

from tests.readers.seen import SECRETS, Seen

_VARIABLE = re.compile(r"\$(?:(\$)|\(([^)]*)\)|)")


def documents(text: str) -> dict[str, dict[str, Any]]:
    """The manifests by kind."""
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


def template(text: str, rank: int) -> dict[str, Any]:
    """The pod template of a rank."""
    spec = documents(text)["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    found: dict[str, Any] = spec["leaderTemplate" if rank == 0 else "workerTemplate"]
    return found


def read(text: str, rank: int, addresses: list[str]) -> Seen:
    """Rank `rank` of a set whose pods have these addresses."""
    pod = template(text, rank)["spec"]
    [box] = pod["containers"]
    # The controller puts its own in front of all others.
    given = {"LWS_LEADER_ADDRESS": addresses[0], "LWS_WORKER_INDEX": str(rank), "LWS_GROUP_SIZE": str(len(addresses))}
    known = dict(given)
    for entry in box["env"]:
        known[entry["name"]] = _value(entry, known, addresses[rank])
    argv = tuple(_expand(word, known) for word in (*box["command"], *box["args"]))
    folders = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    mounts = {
        (folders[it["name"]], it["mountPath"], it["readOnly"]) for it in box["volumeMounts"] if it["name"] in folders
    }
    return Seen(argv, {name: text for name, text in known.items() if name not in given}, frozenset(mounts))


def _value(entry: dict[str, Any], known: dict[str, str], address: str) -> str:
    if "value" in entry:
        return _expand(entry["value"], known)
    if "secretKeyRef" in entry["valueFrom"]:
        return SECRETS["MY_TOKEN"]
    assert entry["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    return address


def _expand(text: str, known: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda it: "$" if it[1] else known.get(it[2] or "", it[0]), text)
