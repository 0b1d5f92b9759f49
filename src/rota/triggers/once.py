"""One fire, at one time."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import msgspec

from rota.clock import Instant, from_datetime, isoformat
from rota.errors import InvalidTrigger
from rota.triggers.zone import instant_of, shown, zone

__all__ = ["Once", "parse_once"]

_EXAMPLE = "Use ISO 8601, e.g. '2026-03-08T09:00:00' (wall clock of the schedule's zone) or '2026-03-08T09:00:00Z'."
_YEARS = range(1970, 9_000)  # what every store and every datetime can hold, with room for any offset


class Once(msgspec.Struct, frozen=True, tag_field="kind", tag="once"):
    """Fires at `at` and never again."""

    kind: ClassVar[str] = "once"

    at: Instant

    def next_after(self, at: Instant) -> Instant | None:
        """The fire, while it is still later than `at`."""
        return self.at if self.at > at else None

    def latest_until(self, at: Instant) -> Instant | None:
        """The fire, once it is not later than `at`."""
        return self.at if self.at <= at else None

    def count(self, after: Instant, until: Instant) -> int | None:
        """One if after < fire <= until, else none."""
        return int(after < self.at <= until)


def parse_once(value: str, *, timezone: str, now: Instant, allow_past: bool = False) -> Once:
    """The fire of an ISO 8601 time; without an offset it is read on the wall of `timezone`.

    A wall that does not exist (the clock is put forward) means the end of that gap; one that happens twice, the first.
    """
    moment = _parsed(value)
    at = from_datetime(moment) if moment.tzinfo else instant_of(zone(timezone), moment)
    if at <= now and not allow_past:
        raise InvalidTrigger(
            f"The time {shown(value)} ({isoformat(at)}) is not in the future: it is {isoformat(now)} now. "
            "Give a later time, or allow a past one to run at once."
        )
    return Once(at)


def _parsed(value: str) -> datetime:
    # Typed callers hand in text, JSON may not; and fromisoformat takes digits of any script.
    text = value.strip() if isinstance(value, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance] - see above
    try:
        moment = datetime.fromisoformat(text) if text.isascii() and len(text) <= 40 else None
    except ValueError:
        moment = None
    if moment is None or moment.year not in _YEARS:
        raise InvalidTrigger(f"The time {shown(str(value))} is no date and time of the years 1970 to 8999. {_EXAMPLE}")
    return moment
