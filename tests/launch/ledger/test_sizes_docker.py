"""What `fit` says of images that it cannot ask, on two real engines; test_docker.py asks one with real vLLM."""

import pytest

from tests.standin.pair import PATCHED, Pair

pytestmark = pytest.mark.docker


def test_an_image_that_the_head_lacks_is_brought_only_when_it_is_asked_for(pair: Pair) -> None:
    world, head = pair.world, pair.nodes.engines[1]
    world.cluster(engine="docker", nodes=pair.listed()[::-1], paths=pair.paths)
    wanted = pair.nodes.engines[0].docker("image", "inspect", "--format", "{{.Id}}", PATCHED).stdout.strip()
    head.docker("image", "rm", "--force", wanted, check=False)
    lacking = world.run("fit", "pair", "--image", PATCHED)
    assert (lacking.exit, "--stage brings it there" in lacking.err) == (2, True), lacking.err
    assert head.docker("image", "inspect", wanted, check=False).returncode
    # The StandIn is no vLLM, and says so in one line.
    asked = world.run("fit", "pair", "--image", PATCHED, "--stage")
    assert (asked.exit, asked.out) == (2, ""), asked.err
    assert asked.err.splitlines()[-1].startswith("hallmark: node right: the sizes were not told: ")
    assert "Traceback" not in asked.err
    assert head.docker("image", "inspect", wanted).returncode == 0
    assert head.docker("ps", "--all", "--quiet").stdout == ""


def test_a_model_that_the_head_lacks_is_told_before_its_engine_is_asked(pair: Pair) -> None:
    world = pair.world
    for folder in world.models.iterdir():
        folder.rename(folder.with_name(f"{folder.name}-elsewhere"))
    refused = world.run("fit", "pair", "--image", PATCHED)
    assert (refused.exit, refused.out) == (2, ""), refused.err
    said = refused.err.splitlines()[-1]
    assert said.startswith("hallmark: node left: the model folder ") and " has no config.json" in said
    assert "`hallmark model fetch pair` fetches it" in said
