"""An image whose build skipped a check is not certified; all others are not held up."""

from dataclasses import replace

import pytest

from launch.ledger.verified import unverified
from launch.nodes import image
from launch.plan.group import GroupPlan, Subject
from recipe.errors import Refused
from recipe.image.inspect import Image

DIGEST = "a" * 64


def plan(kind: str = "image") -> GroupPlan:
    made = object.__new__(GroupPlan)
    object.__setattr__(made, "subject", Subject(kind, "hallmark:p", None, digest=DIGEST))  # type: ignore[arg-type]
    return made


def having(monkeypatch: pytest.MonkeyPatch, labels: dict[str, str]) -> None:
    found = replace(Image(f"sha256:{DIGEST}", None, "amd64", 0, {}, (), {}), labels=labels)
    monkeypatch.setattr(image, "resolve", lambda *_: found)


def test_a_skipped_check_of_the_build_stands_against_a_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, {"dev.hallmark.checks": '{"serve": "skipped: no torch", "patches": "pass"}'})
    assert unverified(plan()) == ["check serve: skipped: no torch"]


def test_nothing_stands_against_an_image_that_passed_or_was_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, {"dev.hallmark.checks": '{"serve": "pass"}'})
    assert unverified(plan()) == []
    having(monkeypatch, {})
    assert unverified(plan()) == []


def test_an_environment_and_an_image_that_is_elsewhere_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> Image:
        raise Refused("there is no such image")

    monkeypatch.setattr(image, "resolve", nothing)
    assert unverified(plan()) == unverified(plan("env")) == []
