"""B9: a secret reaches the ranks, and nothing else: no output, no record, no certificate, no log."""

from pathlib import Path

from tests.standin.world import World

SECRET = "hf_TESTtoken0123456789"


def test_b9_a_secret_is_in_no_output_and_no_file_of_a_launch_a_refused_launch_and_a_certificate(world: World) -> None:
    """One story, because each start takes seconds."""
    world.patches.setenv("HF_TOKEN", SECRET)
    for name, patches in (("a", ()), ("b", ("collapses",))):
        world.profile(name, *patches, env={"HF_TOKEN": "env:HF_TOKEN"})
    world.done("key", "new", "ops")
    told = [
        world.run("render", "pair"),
        world.run("launch", "pair", "--dry-run"),
        world.run("launch", "pair", "--json"),
        world.run("certify", "pair", "--json"),
        world.run("launch", "pair", "--profile", "b", "--json"),
        world.run("status", "pair", "--json"),
        world.run("history", "pair"),
        world.run("logs", "pair"),
    ]
    assert [it.exit for it in told] == [0, 0, 0, 0, 2, 0, 0, 0], [it.err for it in told]
    assert SECRET not in "".join(it.out + it.err for it in told)
    # The ranks have it, so it could have been somewhere.
    assert any(SECRET.encode() in Path(f"/proc/{it.pid}/environ").read_bytes() for it in world.processes())
    files = [it for folder in (world.state, world.node, world.cache) for it in folder.rglob("*") if it.is_file()]
    assert len(files) > 10
    assert [it for it in files if SECRET.encode() in it.read_bytes()] == []
