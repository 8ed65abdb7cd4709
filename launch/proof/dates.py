"""Until when a certificate or a key counts: as people write it, and as it is compared."""

import re
from datetime import UTC, datetime, time, timedelta

from recipe.errors import HallmarkError

_DAYS = re.compile(r"[1-9][0-9]{0,4}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def until(text: str, *, where: str | None = None, now: datetime | None = None) -> datetime:
    """`90` is days from now; `2027-06-30` the end of that day in UTC. Errors: HallmarkError, also for what is past."""
    now = now or datetime.now(UTC)
    found: datetime | None = None
    if _DAYS.fullmatch(text):
        found = now.replace(microsecond=0) + timedelta(days=int(text))
    elif _DATE.fullmatch(text):
        try:
            found = datetime.combine(datetime.strptime(text, "%Y-%m-%d"), time(23, 59, 59), UTC)
        except ValueError:
            found = None
    if found is None:
        hint = "write a number of days, such as 180, or a date, such as 2027-06-30"
        raise HallmarkError(f"{text!r} is no time at which something ends", where=where, hint=hint)
    if found <= now:
        raise HallmarkError(f"{text} is past", where=where, hint="write a later date")
    return found


def past(moment: datetime | None, now: datetime | None = None) -> bool:
    """Whether an end, None for no end, has come."""
    return moment is not None and moment <= (now or datetime.now(UTC))


def text(moment: datetime) -> str:
    """In UTC, to the second, as it is recorded."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")
