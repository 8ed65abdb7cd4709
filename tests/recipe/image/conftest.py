"""What tests of images share; they see no secrets of whoever runs them."""

import os
from pathlib import Path

import pytest
import yaml

from recipe.config.paths import CHECKOUT
from recipe.config.rules import is_secret


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in filter(is_secret, dict(os.environ)):
        monkeypatch.delenv(name)
    for name, file in (("DOCKER_CONFIG", ""), ("PIP_CONFIG_FILE", ""), ("HF_HOME", ""), ("NETRC", "netrc")):
        monkeypatch.setenv(name, str(tmp_path / "nobody" / file))


@pytest.fixture(scope="session")
def without_pins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose support rows let vLLM 0.33.0 have another torch than its own: that base has the 2.13.0 of vLLM
    for the CPU."""
    home = tmp_path_factory.mktemp("without-pins")
    support = yaml.safe_load((CHECKOUT / "configs/support.yaml").read_text())
    rows = [row for row in support["rows"] if row["id"] != "torch-2.14"]
    assert len(rows) == len(support["rows"]) - 1
    (home / "configs").mkdir()
    (home / "configs/support.yaml").write_text(yaml.safe_dump({**support, "rows": rows}))
    return home
