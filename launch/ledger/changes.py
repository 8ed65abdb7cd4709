"""What changed between two revisions of a cluster. Pure: records go in, a document and lines for people come out."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from launch.ledger.history import Revision
from launch.plan.group import GroupPlan, RankPlan
from launch.plan.ranks import words

_CONTAINER = ("devices", "cap_add", "ulimits", "shm_size", "gpus", "network", "restart", "init", "stop_timeout")


@dataclass(frozen=True)
class Record:
    """A revision with what was kept of it. `patches`: the ids, each with its content where the patch set was kept,
    None where nothing is known; `profile`: the text of the profile's file, None where it was not kept."""

    revision: Revision
    plan: GroupPlan
    patches: Mapping[str, object] | None
    profile: str | None


@dataclass(frozen=True)
class RankChange:
    """One rank, known by its number. `argv` and `mounts`: lines that begin with `-` or `+`; `env`: by variable the old
    and the new value, None for one that is not set, a secret by its reference; `container`: other options likewise."""

    rank: int
    name: str
    argv: list[str]
    env: dict[str, tuple[str | None, str | None]]
    mounts: list[str]
    container: dict[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Changes:
    """From one revision to another. `facts`: by name (profile, hardware, image, digest, patch set, model), old and new,
    only what differs; `patches`: `added`, `removed`, `changed` ids, `unknown` when a side's are not known; `profile`:
    unified diff of the profile's file; `ranks`: those that differ."""

    old: int
    new: int
    facts: dict[str, tuple[str | None, str | None]]
    patches: dict[str, list[str]]
    patches_known: bool
    ranks: list[RankChange]
    profile: list[str]
    profile_known: bool

    @property
    def none(self) -> bool:
        """Whether both run exactly the same, as far as it was recorded."""
        return not (self.facts or any(self.patches.values()) or self.ranks or self.profile)

    def to_json(self) -> dict[str, Any]:
        return {"from": self.old, "to": self.new, **{k: v for k, v in asdict(self).items() if k not in ("old", "new")}}


def changes(old: Record, new: Record) -> Changes:
    """Compare two revisions of one cluster."""
    known = old.patches is not None and new.patches is not None
    # One set has one name, whatever is known of its parts.
    same = old.revision.subject["patchset"] == new.revision.subject["patchset"]
    texts = (old.profile, new.profile)
    return Changes(
        old.revision.number,
        new.revision.number,
        dict(_facts(old, new)),
        _patches(old.patches or {}, new.patches or {}) if known and not same else _patches({}, {}),
        known or same,
        list(_ranks(old.plan, new.plan)),
        _profile(old, new) if None not in texts else [],
        None not in texts or old.revision.profile_sha256 == new.revision.profile_sha256,
    )


def lines(found: Changes) -> Iterator[str]:
    """For people."""
    yield f"revision {found.old} → {found.new}"
    if found.none:
        yield "  the same, as far as it was recorded"
    for name, (before, after) in found.facts.items():
        yield f"  {name}: {before or 'none'} → {after or 'none'}"
    for word, mark in (("added", "+"), ("removed", "-"), ("changed", "~")):
        yield from (f"  patch {mark} {patch}" for patch in found.patches[word])
    if not found.patches_known:
        yield "  which patches differ is not known: one of the images was not built by Hallmark, or is of before"
    for rank in found.ranks:
        yield f"  rank {rank.rank} ({rank.name})"
        yield from (f"    argv {line}" for line in rank.argv)
        for name, (before, after) in rank.env.items():
            yield f"    env {name}: {_shown(before)} → {_shown(after)}"
        yield from (f"    mount {line}" for line in rank.mounts)
        yield from (f"    {name}: {before} → {after}" for name, (before, after) in rank.container.items())
    if found.profile:
        yield "  the profile's file"
        yield from (f"    {line}" for line in found.profile)
    if not found.profile_known:
        yield "  the profile's file of one of them was not kept"


def _facts(old: Record, new: Record) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    def parts(it: Record) -> dict[str, str | None]:
        subject = it.revision.subject
        return {
            "profile": it.revision.profile,
            "hardware": it.revision.hardware,
            "engine": it.plan.engine,
            "model": it.plan.model_name,
            "image": subject["reference"],
            "digest": f"sha256:{subject['digest']}",
            "patch set": subject["patchset"],
            "API": it.plan.api_url,
        }

    before, after = parts(old), parts(new)
    yield from ((name, (before[name], after[name])) for name in before if before[name] != after[name])


def _patches(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, list[str]]:
    both = [name for name in new if name in old]
    return {
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
        # Content is compared only where both sides have it.
        "changed": [it for it in both if None not in (old[it], new[it]) and old[it] != new[it]],
    }


def _ranks(old: GroupPlan, new: GroupPlan) -> Iterator[RankChange]:
    before, after = ({rank.rank: rank for rank in plan.ranks} for plan in (old, new))
    for number in sorted({*before, *after}):
        change = _rank(number, before.get(number), after.get(number))
        if change.argv or change.env or change.mounts or change.container:
            yield change


def _rank(number: int, old: RankPlan | None, new: RankPlan | None) -> RankChange:
    present = new or old
    assert present is not None
    boxes = [rank.container if rank else None for rank in (old, new)]
    parts = {name: tuple(getattr(box, name) if box else None for box in boxes) for name in _CONTAINER}
    container: dict[str, tuple[Any, Any]] = {
        name.replace("_", "-"): (values[0], values[1]) for name, values in parts.items() if values[0] != values[1]
    }
    if old is not None and new is not None and old.place != new.place:
        container["node"] = (old.name, new.name)
    mounts = [sorted(f"{it.source}:{it.target}" for it in box.mounts) if box else [] for box in boxes]
    return RankChange(
        number,
        present.name,
        _lines(*([_options(rank) if rank else [] for rank in (old, new)])),
        _env(old, new),
        _lines(*mounts),
        container,
    )


def _options(rank: RankPlan) -> list[str]:
    """The arguments, an option with its values each."""
    found: list[str] = []
    for word in words(rank.argv):
        if word.startswith("-") or not found:
            found.append(word)
        else:
            found[-1] += f" {word}"
    return found


def _env(old: RankPlan | None, new: RankPlan | None) -> dict[str, tuple[str | None, str | None]]:
    before, after = (
        {**rank.env, **{k: f"({v})" for k, v in rank.secrets.items()}} if rank else {} for rank in (old, new)
    )
    return {
        name: (before.get(name), after.get(name))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    }


def _lines(old: Sequence[str], new: Sequence[str]) -> list[str]:
    return [line for line in difflib.ndiff(list(old), list(new)) if line[0] in "+-"]


def _profile(old: Record, new: Record) -> list[str]:
    one, other = (f"{it.revision.profile} of revision {it.revision.number}" for it in (old, new))
    before, after = (str(it.profile).splitlines() for it in (old, new))
    return list(difflib.unified_diff(before, after, one, other, lineterm="", n=2))


def _shown(value: str | None) -> str:
    return "not set" if value is None else repr(value)
