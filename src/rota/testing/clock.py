"""A clock that moves only when told."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from rota.clock import SECOND, Instant, from_datetime, isoformat, parse_duration

__all__ = ["START", "FakeClock"]

START: Final[Instant] = 1_767_603_600_000
"""2026-01-05T09:00:00Z, a Monday: where a clock starts unless told otherwise."""


class FakeClock:
    """A `Clock` for tests: `clock.advance("3h")`, `clock.set(datetime(...))`."""

    def __init__(self, start: Instant | datetime = START) -> None:
        self._now = _instant(start)
        self._monotonic = 0.0

    def now(self) -> Instant:
        """The wall clock, as an instant."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that were advanced so far; `set` does not change them."""
        return self._monotonic

    def advance(self, by: str | float | timedelta) -> Instant:
        """Let time pass: a duration ("3h"), a timedelta or a number of seconds. Answers the new instant."""
        span = parse_duration(by, what="time to advance")
        self._now += span
        self._monotonic += span / SECOND
        return self._now

    def set(self, to: Instant | datetime) -> Instant:
        """Jump, also backwards, as a wall clock does when it is corrected; the monotonic clock takes no notice."""
        self._now = _instant(to)
        return self._now

    def __repr__(self) -> str:
        return f"FakeClock({isoformat(self._now)})"


def _instant(moment: Instant | datetime) -> Instant:
    return from_datetime(moment) if isinstance(moment, datetime) else moment
