"""Tags and trials on a cluster of processes: what was certified under a tag, and what a launch says of the proof."""

from launch.ledger.launch import want
from launch.ledger.standing import standing
from launch.ledger.work import work
from tests.standin.world import World


def test_a_launch_says_whether_it_is_a_trial_and_a_certified_tag_is_what_was_certified(world: World) -> None:
    """B5: a certified tag means the digest that was certified."""
    world.done("key", "new", "ops")
    first = world.done("launch", "pair")
    assert first["trial"] is True
    assert "it cannot be rolled back to until `hallmark certify pair`" in first["notes"][0]
    world.done("certify", "pair")
    again = world.done("launch", "pair")
    assert (again["changed"], again["trial"]) == (False, False)
    assert "is certified: certificate " in again["notes"][0]
    world.profile("a", env={"OTHER": "1"})
    opened = work(world.home, "pair", print)
    said = standing(opened, want(opened, None, None).plan, "here").said
    assert "is certified, but with other arguments: certificate " in said
    world.profile("a")
    world.done("launch", "pair", "--profile", "c")
    for tag in ("c-certified", "nowhere", "registry.example/x@sha256:12"):
        refused = world.run("rollback", "pair", "--to", tag)
        assert (refused.exit, f"there is no revision, digest or tag '{tag}'" in refused.err) == (2, True), refused.err
    back = world.done("rollback", "pair", "--to", "a-certified")
    assert (back["revision"], back["trial"]) == (3, False)
    assert world.done("history", "pair")["revisions"][-1]["restores"] == 1
    [key] = world.done("key", "list")["keys"]
    world.done("key", "revoke", key["keyid"])
    trial = world.done("launch", "pair")
    assert trial["trial"] is True
    assert "revoked key" in trial["notes"][0]
    world.done("launch", "pair", "--profile", "c")
    refused = world.run("rollback", "pair", "--to", "a-certified")
    assert (refused.exit, "its certificate: revoked key" in refused.err) == (2, True), refused.err
    assert world.greeting() == "patched"
