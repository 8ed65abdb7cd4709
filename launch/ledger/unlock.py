"""Breaking a lock: for a command whose machine is gone, so that it cannot give the lock back itself."""

from collections.abc import Mapping

from launch.group.journal import Event
from launch.ledger.work import Work
from launch.nodes.lock import Owner, whoami


def break_(work: Work, owners: Mapping[str, Owner]) -> None:
    """Take the lock from these owners, write into the journal that it was, and give it back.

    An owner that lives nevertheless cannot write to the journal any more, and ends.
    Errors: Busy when another one has it by now; Unreachable; Mismatch for a journal that cannot be trusted.
    """
    work.store.lock.take("lock break", owners)
    try:
        journal, past = work.look()
        held = {node: str(owner) for node, owner in owners.items()}
        journal.append(Event.LOCK_BROKEN, past.unfinished or past.running or 0, who=whoami(), held=held)
    finally:
        work.store.lock.release()
