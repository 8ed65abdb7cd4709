"""What a cluster may still return to, and so must stay on its nodes. Pure: the history says it all."""

from launch.ledger.history import History


def kept_revisions(past: History) -> set[int]:
    """The revisions whose stopped ranks stay on their nodes: of each certified group the newest one (whoever signed it:
    a key's word may count again elsewhere), what runs or was begun, and what ran before that; of a cluster that is
    stopped what ran last."""
    newest = {(it.subject["digest"], it.plan): it.number for it in past.revisions.values() if it.certificate}
    ran = [it.number for it in past.revisions.values() if it.state in ("committed", "adopted")]
    now = {it for it in (past.unfinished, past.running) if it is not None} or set(ran[-1:])
    before = [past.revisions[it].old for it in now]
    return {it for it in (*newest.values(), *now, *before) if it is not None and it in past.revisions}
