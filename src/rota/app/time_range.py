"""A time range as people say it: since when, until when; an instant, or how long ago."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from rota.clock import Instant, from_datetime, isoformat, parse_duration
from rota.errors import InvalidInput, InvalidTrigger
from rota.stores.base import Store
from rota.triggers import Once, parse_trigger

__all__ = ["EVER", "TimeRange", "time_range", "time_range_in"]


class TimeRange(NamedTuple):
    """From an instant on, and before another one; None: from ever, and for ever."""

    since_at: Instant | None = None
    until_at: Instant | None = None

    def to_dict(self) -> dict[str, str]:
        """The same for who asks elsewhere."""
        given = {"since": isoformat(self.since_at), "until": isoformat(self.until_at)}
        return {name: at for name, at in given.items() if at is not None}


EVER: Final = TimeRange()


def time_range(since: str | datetime | None, until: str | datetime | None, *, now: Instant, timezone: str) -> TimeRange:
    """What is meant by two words: "2h" is two hours ago; ISO 8601 without an offset is wall clock in the zone."""
    found = TimeRange(_instant(since, now, timezone, "since"), _instant(until, now, timezone, "until"))
    if found.since_at is not None and found.until_at is not None and found.since_at >= found.until_at:
        raise InvalidInput(f"Nothing lies between since ({since}) and until ({until}). Give the earlier one as since.")
    return found


async def time_range_in(
    store: Store, timezone: str, since: str | datetime | None, until: str | datetime | None
) -> TimeRange:
    """The same by the clock of a store, which is only asked if there is a range."""
    if since is until is None:
        return EVER
    return time_range(since, until, now=await store.now(), timezone=timezone)


def _instant(said: str | datetime | None, now: Instant, timezone: str, what: str) -> Instant | None:
    if said is None:
        return None
    if isinstance(said, datetime):
        return from_datetime(said)
    # A date has a hyphen and a time a colon; a duration has neither.
    if "-" not in said and ":" not in said:
        return max(0, now - parse_duration(said, what=what))
    try:
        moment = parse_trigger("once", said, timezone=timezone, now=now, allow_past=True)
    except InvalidTrigger as error:
        raise InvalidInput(f"{what}: {error} Or say how long ago, like '2h'.") from None
    assert isinstance(moment, Once)
    return moment.at
