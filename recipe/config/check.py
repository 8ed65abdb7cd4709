"""Loads what a command works on and applies every rule: errors end the command, warnings and notes come back."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from recipe.config.cluster_rules import cluster_rules, pair_rules
from recipe.config.findings import Finding
from recipe.config.load import (
    Loaded,
    load_api,
    load_cluster,
    load_hardware,
    load_profile,
    load_support,
    names,
)
from recipe.config.models import Cluster, Hardware, Profile
from recipe.config.rules import gates_exist, open_routes, profile_rules
from recipe.config.support import settings, support_rules
from recipe.errors import ConfigError


@dataclass(frozen=True)
class CheckedProfile:
    """A profile that breaks no rule, with the variables that support rows add, its hardware and the rest."""

    profile: Loaded[Profile]
    hardware: Loaded[Hardware]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Checked(CheckedProfile):
    """A profile and a cluster that fit together."""

    cluster: Loaded[Cluster]


def check_profile(home: Path, name_or_path: str) -> CheckedProfile:
    """Load a profile and apply all rules about it. Errors: a ConfigError with every broken rule."""
    checked, findings = _profile(home, load_profile(home, name_or_path))
    return replace(checked, findings=_or_raise(findings))


def check_cluster(home: Path, name_or_path: str, profile: str | None = None) -> Checked:
    """Load a cluster with its own or another profile and apply all rules about both.

    Errors: a ConfigError with every broken rule of both files.
    """
    cluster = load_cluster(home, name_or_path)
    chosen = (
        load_profile(home, profile)
        if profile is not None
        else load_profile(
            home, cluster.value.profile, base=cluster.path.parent, where=cluster.document.where(("profile",))
        )
    )
    checked, findings = _profile(home, chosen)
    findings += [*cluster_rules(cluster), *pair_rules(checked.profile, cluster)]
    return Checked(checked.profile, checked.hardware, _or_raise(findings), cluster)


def support_findings(home: Path, profile: Loaded[Profile], release: str) -> tuple[Finding, ...]:
    """What support rows say about a profile, were it on this release."""
    hardware = load_hardware(home, profile.value.hardware, where=profile.document.where(("hardware",))).value
    moved = replace(profile, value=profile.value.model_copy(update={"vllm": release}))
    return tuple(support_rules(moved, hardware, load_support(home).value))


def _profile(home: Path, profile: Loaded[Profile]) -> tuple[CheckedProfile, list[Finding]]:
    where = profile.document.where(("hardware",))
    hardware = load_hardware(home, profile.value.hardware, where=where)
    support = load_support(home).value
    findings = [
        *profile_rules(profile, hardware.value),
        *open_routes(profile, load_api(home).value),
        *gates_exist(profile, names(home, "gates")),
        *support_rules(profile, hardware.value, support),
    ]
    added = settings(profile.value, hardware.value, support)
    value = profile.value.model_copy(update={"env": {**profile.value.env, **added}})
    return CheckedProfile(replace(profile, value=value), hardware, ()), findings


def _or_raise(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    findings = tuple(sorted(findings, key=lambda finding: finding.place))
    errors = [finding.problem for finding in findings if finding.severity == "error"]
    if errors:
        raise ConfigError(errors)
    return findings
