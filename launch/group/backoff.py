"""When a lost group may be started again: at once, then after longer and longer, and not for ever. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class Backoff:
    """At most `limit` restarts in `within`; before the second one at least `first` passes, before each later one twice
    as long as before the one before it, up to `most`. Seconds."""

    limit: int = 5
    within: float = 3600.0
    first: float = 10.0
    most: float = 600.0

    def wait(self, restarts: Sequence[datetime], now: datetime) -> float | None:
        """For how many seconds to wait before the next restart, after those that began at these times; None when the
        limit is reached."""
        recent = [at for at in restarts if now - at < timedelta(seconds=self.within)]
        if len(recent) >= self.limit:
            return None
        if not recent:
            return 0.0
        pause: float = min(self.first * 2.0 ** (len(recent) - 1), self.most)
        return max(0.0, pause - (now - max(recent)).total_seconds())
