"""A certified image in a registry that is gone, and names of registries that are none."""

import pytest

from launch.ledger.published import Published
from launch.ledger.subject import registry_of
from recipe.errors import HallmarkError, Unreachable
from recipe.image.reference import Reference
from tests.standin.world import World, free_ports


def test_a_registry_that_went_away_during_the_gates_leaves_the_certificate_in_history() -> None:
    [port] = free_ports(1)
    image = Published(Reference(f"127.0.0.1:{port}", "vllm"), f"sha256:{'a' * 64}")
    with pytest.raises(Unreachable, match="does not answer") as failed:
        image.certified("a", b"{}")
    assert "the certificate is in the history, but not (or without its tag) in" in str(failed.value)


def test_a_clusters_registry_that_is_no_repository_is_named_with_its_line(world: World) -> None:
    world.cluster(engine="docker", registry="vllm")
    with pytest.raises(HallmarkError, match=r"pair.yaml:\d+: 'vllm' is no repository of a registry — write HOST/PATH"):
        registry_of(world.loaded())
    world.cluster(registry="registry.example:5000/vllm")
    assert registry_of(world.loaded()) is None
