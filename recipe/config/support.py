"""Applies the rows of configs/support.yaml: vLLM release × hardware × feature."""

from collections.abc import Iterator
from typing import Any

from recipe.config.findings import Finding, Severity, finding
from recipe.config.load import Loaded
from recipe.config.models import Hardware, Profile, Support, SupportRow, mapping
from recipe.config.source import Loc

_SEVERITY: dict[str, Severity] = {"refuse": "error", "warn": "warning", "note": "note"}
# Flags that vLLM also takes as a key of a larger one: --kernel-config '{"moe_backend": "b12x"}'.
_PARTS = {
    "moe-backend": ("kernel-config", "moe_backend"),
    "linear-backend": ("kernel-config", "linear_backend"),
    "attention-backend": ("attention-config", "backend"),
}


def support_rules(profile: Loaded[Profile], hardware: Hardware, support: Support) -> Iterator[Finding]:
    """Findings of all rows that match; none for a fork."""
    for row in matching(profile.value, hardware, support):
        message = f"vLLM {profile.value.release} on {profile.value.hardware} ({row.id})"
        why = f"{row.why} [{row.source}]"
        if row.effect != "set":
            yield finding(_SEVERITY[row.effect], profile, _loc(row, profile.value), message, why=why, hint=row.hint)
            continue
        env = profile.value.env
        if added := [f"{name}={value}" for name, value in row.set.items() if name not in env]:
            yield finding("note", profile, ("vllm",), f"{message} gets {', '.join(added)}", why=why, hint=row.hint)
        for name, value in row.set.items():
            if env.get(name, value) != value:
                kept = f"{message} would get {name}={value}, but the profile's own {env[name]} counts"
                yield finding("note", profile, ("env", name), kept, why=why, hint=row.hint)


def settings(profile: Profile, hardware: Hardware, support: Support) -> dict[str, str]:
    """Variables that rows add to the profile's environment, which wins where it sets them itself."""
    found: dict[str, str] = {}
    for row in matching(profile, hardware, support):
        found.update(row.set)
    return {name: value for name, value in found.items() if name not in profile.env}


def matching(profile: Profile, hardware: Hardware, support: Support) -> Iterator[SupportRow]:
    """Rows with an effect whose every given part matches."""
    release = profile.release
    if release is None:
        return
    for row in support.rows:
        if row.effect != "pin" and row.covers(release) and _concerns(row, profile, hardware):
            yield row


def _concerns(row: SupportRow, profile: Profile, hardware: Hardware) -> bool:
    draft = profile.speculative
    tokens = draft.get("num_speculative_tokens")
    patches = (*profile.patches.required, *profile.patches.optional)
    return (
        (not row.capabilities or any(f"{hardware.capability}.".startswith(f"{part}.") for part in row.capabilities))
        and (row.model is None or row.model.lower() in profile.model.lower())
        and all(_matched(profile, flag, value) is not None for flag, value in row.flags.items())
        and all(_same(draft.get(key), value) for key, value in row.draft.items())
        and all(draft.get(key) is not None for key in row.draft_settings)
        and (row.draft_tokens_below is None or (isinstance(tokens, int) and tokens < row.draft_tokens_below))
        and (row.extra is None or row.extra in profile.extras)
        and (row.unless_patch is None or row.unless_patch not in patches)
    )


def _matched(profile: Profile, flag: str, value: Any) -> str | None:
    """The serve key that gives this flag such a value, in any of the forms that vLLM takes; None without one."""
    given = {flag: profile.serve.get(flag)}
    if flag in _PARTS:
        whole, part = _PARTS[flag]
        others = {
            whole: mapping(profile.serve.get(whole)).get(part),
            f"{whole}.{part}": profile.serve.get(f"{whole}.{part}"),
        }
        given |= {key: found for key, found in others.items() if found is not None}
    return next((key for key, found in given.items() if _same(found, value)), None)


def _same(given: Any, value: Any) -> bool:
    return any(_plain(given) == _plain(each) for each in (value if isinstance(value, list) else [value]))


def _plain(value: Any) -> Any:
    # vLLM reads the names of backends in any case, those of kernels also with dashes.
    return value.lower().replace("-", "_") if isinstance(value, str) else value


def _loc(row: SupportRow, profile: Profile) -> Loc:
    for flag, value in row.flags.items():
        return ("serve", _matched(profile, flag, value) or flag)
    return ("vllm",)
