"""docs/patches.md: every patch with its reason, upstream link and removal condition, and its state on every release."""

from recipe.catalogue import record
from recipe.catalogue.compile import catalogue
from recipe.catalogue.model import Edit, Overlay, PatchFile, Upstream
from recipe.config.load import list_profiles
from recipe.config.paths import CHECKOUT
from scripts.pages import notes
from scripts.pages.text import generated, table, thread

_INTRO = """\
One file a patch, in `recipe/patches/`; `hallmark plan PROFILE` says what state each has against a release. What the
DeepSeek-V4 patches change was shown on vLLM's real modules [on the CPU](proofs/cpu.md), and with vLLM 0.26.0
[on one H200](proofs/h200-0.26.0.md) for those whose proof names that page; with all of them the tokens there are the
released ones, to the bit. Other releases, and all of it on a GB10 (SM121), are *not verified on hardware*."""
_MATRIX = """\
## Releases

The state of every patch on every release, from the released wheels; `hallmark audit --out recipe/patches/audit.json`
writes the data of this table and `hallmark audit --check` compares it with the wheels. *applies*: the patch is
pending there. *fits*: it is not applicable, because its ranges leave the release out, but would apply if they did not.
–: not applicable, and its anchors are not there either.
"""
_WORDS = {"pending": "applies", "not-applicable": "–"}


def page() -> str:
    """The page as text."""
    found = [patch.value for patch in catalogue()]
    profiles = list_profiles(CHECKOUT)

    def used_by(id: str) -> str:
        names = [p.name for p in profiles if id in (*p.value.patches.required, *p.value.patches.optional)]
        return ", ".join(names) or "no profile"

    rows = [(f"[{patch.id}](#{patch.id})", patch.class_, _ranges(patch), used_by(patch.id)) for patch in found]
    parts = [
        generated("Patches", "recipe/patches", _INTRO),
        table(("patch", "class", "releases", "profiles"), rows),
        _matrix([patch.id for patch in found]),
        *(_section(patch) for patch in found),
        notes.sections(),
    ]
    return "\n".join(parts)


def _matrix(ids: list[str]) -> str:
    audited = record.load()

    def word(release: str, id: str) -> str:
        state = audited.states[release].get(id, "not audited")
        fits = state == "not-applicable" and audited.widened.get(release, {}).get(id) == "pending"
        return "fits" if fits else _WORDS.get(state, state)

    rows = [(id, *(word(release, id) for release in audited.states)) for id in ids]
    return f"{_MATRIX}\n{table(('patch', *audited.states), rows)}"


def _section(patch: PatchFile) -> str:
    edits = table(("file", "where", "edit"), ((f"`{e.file}`", _where(e), e.op) for e in patch.edits))
    note = f"Note: {patch.note}.\n\n" if patch.note else ""
    proof = f" Proof: {', '.join(f'[{path}](../{path})' for path in patch.proof)}." if patch.proof else ""
    return (
        f"## {patch.id}\n\n{patch.title}.\n\n{patch.why}\n\n{note}"
        f"Upstream: {_upstream(patch.upstream)}. Remove when: {patch.remove_when}.{proof}\n\n{edits}"
    )


def _where(edit: Edit) -> str:
    return "the whole file" if isinstance(edit, Overlay) else f"`{getattr(edit, 'in_', '<module>')}`"


def _upstream(upstream: Upstream) -> str:
    number = upstream.pr or upstream.issue
    link = thread(number) if number else upstream.none
    return f"{link}, {upstream.status} (looked at {upstream.checked})"


def _ranges(patch: PatchFile) -> str:
    return ", ".join(f"`{when}`" for when in sorted({edit.when for edit in patch.edits}))
