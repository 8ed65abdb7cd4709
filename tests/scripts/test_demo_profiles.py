"""The demo's three versions are one profile with different patches."""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "scripts" / "demo" / "profiles"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["cpu-dev-bad", "cpu-dev-c"])
def test_a_demo_version_is_cpu_dev_with_one_more_patch(name: str) -> None:
    base, version = read(ROOT / "configs" / "profiles" / "cpu-dev.yaml"), read(DEMO / f"{name}.yaml")
    first, *added = version["patches"]["required"][len(base["patches"]["required"]) - 1 :]
    assert [*base["patches"]["required"][:-1], first] == base["patches"]["required"]
    assert len(added) == 1
    assert (DEMO / added[0]).is_file()
    for document in (base, version):
        del document["summary"], document["patches"]
    assert version == base
