"""Tests of images see no secrets of whoever runs them."""

import os
from pathlib import Path

import pytest

from recipe.config.rules import is_secret


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in filter(is_secret, dict(os.environ)):
        monkeypatch.delenv(name)
    for name, file in (("DOCKER_CONFIG", ""), ("PIP_CONFIG_FILE", ""), ("HF_HOME", ""), ("NETRC", "netrc")):
        monkeypatch.setenv(name, str(tmp_path / "nobody" / file))
