"""Patches × releases: the state of every patch against the sources of every release. Plans only, writes nothing.

A patch is judged alone, as a profile may take it without the others; those that would be applied are then planned
together, to find the ones that change the same place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from packaging.version import Version

from recipe.applier.plan import plan
from recipe.applier.states import NOT_APPLICABLE, PENDING, UPSTREAMED, PatchPlan, refusal
from recipe.applier.tree import Sources
from recipe.catalogue.compile import Patch, applies, compile_patches


@dataclass(frozen=True)
class Widened:
    """What a patch would be on a release that its ranges leave out, were they as wide as `like` has them."""

    like: str
    plan: PatchPlan

    @property
    def state(self) -> str:
        return self.plan.state


@dataclass(frozen=True)
class Cell:
    """A patch on a release: its state alone, and what it would be with a wider range where it does not apply."""

    patch: str
    state: str
    plan: PatchPlan
    widened: Widened | None = None

    def reasons(self) -> list[str]:
        """Why it drifts, or would: a line for each edit, with the nearest candidate and the release it last fitted."""
        planned = self.widened.plan if self.widened and self.state == NOT_APPLICABLE else self.plan
        bad = [edit for edit in planned.edits if edit.state.startswith("drift:")]
        return refusal([(planned, edit) for edit in bad] or ([(planned, None)] if "drift" in planned.state else []))

    def to_json(self) -> dict[str, Any]:
        widened = self.widened
        return {
            **self.plan.to_json(),
            "state": self.state,
            "widened": None if widened is None else {"like": widened.like, **widened.plan.to_json()},
        }


@dataclass
class Column:
    """One release: its cells by patch, and what is wrong with the applicable patches together."""

    name: str
    cells: dict[str, Cell] = field(default_factory=dict)
    together: list[str] = field(default_factory=list)


def column(name: str, sources: Sources, patches: Sequence[Patch], versions: Sequence[str]) -> Column:
    """Judge every patch on one release; `versions` are all that are known, for what lies next to its ranges."""
    version = sources.version.partition("+")[0]
    ordered = sorted({*versions, version}, key=Version)
    found = Column(name)
    for patch in patches:
        found.cells[patch.value.id] = _cell(patch, sources, version, ordered)
    pending = [patch for patch in patches if found.cells[patch.value.id].state == PENDING]
    if len(pending) > 1:
        together = plan(sources, compile_patches([(patch, False) for patch in pending], version))
        found.together = refusal(together.problems())
    return found


def active(patch: Patch, version: str) -> frozenset[int]:
    """The edits whose ranges hold for a version, by index."""
    return frozenset(index for index, edit in enumerate(patch.value.edits) if applies(edit.when, version))


def _cell(patch: Patch, sources: Sources, version: str, ordered: list[str]) -> Cell:
    here = plan(sources, compile_patches([(patch, False)], version)).patches[0]
    widened = [
        Widened(like, plan(sources, compile_patches([(patch, False)], version, ranges_of=like)).patches[0])
        for like in _donors(patch, version, ordered)
    ]
    best = min(widened, key=lambda option: _ORDER.get(option.state, 2), default=None)
    state = here.state
    if state == UPSTREAMED and best is not None and best.state != UPSTREAMED and not active(patch, version):
        # A name that is imported there already is not the fix.
        state = NOT_APPLICABLE
    return Cell(patch.value.id, state, here, best if state != UPSTREAMED else None)


_ORDER = {UPSTREAMED: 0, PENDING: 1}


def _donors(patch: Patch, version: str, ordered: list[str]) -> list[str]:
    """The nearest releases on both sides whose edits could be this one's too: all of them, or those in a gap."""
    place, own = ordered.index(version), active(patch, version)
    sides = (list(reversed(ordered[:place])), ordered[place + 1 :])
    if own:
        before, after = (frozenset().union(*(active(patch, other) for other in side)) for side in sides)
        if not (before & after) - own:
            return []
    found: list[str] = []
    for side in sides:
        near = next((other for other in side if active(patch, other) > own), None)
        if near is not None and active(patch, near) not in (active(patch, other) for other in found):
            found.append(near)
    return found
