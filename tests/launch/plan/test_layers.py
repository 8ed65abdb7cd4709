"""Which layers a node lacks, and how much that is."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from launch.plan import layers
from launch.plan.layers import Held

WANTED = ("sha256:base", "sha256:libs", "sha256:patch")


@pytest.mark.parametrize(
    ("held", "there", "coming"),
    [
        ([], 0, 1000),
        ([Held(900, WANTED[:2])], 2, 100),
        ([Held(1000, WANTED)], 3, 0),
        # An older patch on the same base: as large as the new one, or a little larger.
        ([Held(990, (*WANTED[:2], "sha256:older"))], 2, 10),
        ([Held(1200, (*WANTED[:2], "sha256:older"))], 2, 0),
        # Layers are shared only with all that is below them.
        ([Held(900, ("sha256:other", *WANTED[1:]))], 0, 1000),
        # How large the common part of this one is, nobody knows.
        ([Held(900, (WANTED[0], "sha256:x", "sha256:y"))], 1, 1000),
        ([Held(5, ())], 0, 1000),
    ],
)
def test_only_layers_that_are_missing_count(held: list[Held], there: int, coming: int) -> None:
    assert layers.there(WANTED, held) == there
    assert layers.coming(1000, WANTED, held) == coming


def test_the_archive_has_only_the_layers_that_are_sent(tmp_path: Path) -> None:
    (tmp_path / "patch").write_bytes(b"bytes")
    out = io.BytesIO()
    layers.write(out, "localhost/x:1", ("sha256:abc", b"{}"), WANTED, {WANTED[2]: tmp_path / "patch"})
    out.seek(0)
    with tarfile.open(fileobj=out) as archive:
        assert sorted(archive.getnames()) == ["abc.json", "manifest.json", "patch/layer.tar"]
        listed = archive.extractfile("manifest.json")
        assert listed is not None
        [manifest] = json.load(listed)
    assert manifest["Layers"] == ["base/layer.tar", "libs/layer.tar", "patch/layer.tar"]
    assert manifest["RepoTags"] == ["localhost/x:1"]
