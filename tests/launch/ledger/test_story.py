"""The main story: a good group, a bad successor, a good one, and back again."""

from tests.standin.world import World


def test_a_bad_patch_set_is_refused_and_certified_revisions_are_rolled_back_to(world: World) -> None:
    world.done("key", "new", "ops")
    launched = world.done("launch", "pair", "-m", "first")
    assert (launched["revision"], launched["changed"], launched["outage_seconds"]) == (1, True, None)
    assert world.answers()
