"""What a command on a cluster asks of its group."""

import socket

from launch.ledger.work import Work
from tests.standin.world import World


def test_a_server_that_is_not_of_the_group_proves_nothing(world: World) -> None:
    world.done("launch", "pair")
    work = Work(world.home, world.loaded(), lambda line: None)
    generation = work.generation(1)
    assert work.missing(generation) is None
    world.done("stop", "pair")
    with socket.create_server(("127.0.0.1", work.cluster.value.ports.api)):
        found = work.missing(generation)
    assert found is not None
    assert "which is not of this group" in found


def test_a_journal_that_is_gone_is_not_taken_for_a_cluster_without_a_history(world: World) -> None:
    world.done("launch", "pair")
    journal = world.store().folder / "journal.jsonl"
    kept = journal.read_bytes()
    for content in (b"", b"\x00 not a journal"):
        journal.write_bytes(content)
        for command in ("status", "history", "stop", "launch"):
            result = world.run(command, "pair")
            assert result.exit == 4, command
            assert "the journal is missing or damaged from its first line" in result.err
    journal.write_bytes(kept)
    assert world.answers()
