"""What tests of running groups share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.standin.world import World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A project with a cluster of two StandIn ranks; nothing of it runs after the test."""
    made = World(tmp_path, monkeypatch)
    yield made
    made.end()
