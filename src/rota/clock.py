"""Time, as one form that Python, SQL and Lua compare alike.

An *instant* is a whole number of milliseconds since the epoch, UTC. Names that end in `_at` hold instants, names that
end in `_ms` hold durations. Integers are compared and added without surprise in every store, and no zone can be
forgotten on the way. The faces (Python API, CLI, HTTP) turn them into aware datetimes with `to_datetime`.

Nothing below `runtime/` reads a clock: a `Clock` is handed in, or `now` is an argument.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from rota.errors import InvalidInput

__all__ = [
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "Clock",
    "Instant",
    "Millis",
    "SystemClock",
    "format_duration",
    "from_datetime",
    "isoformat",
    "parse_duration",
    "to_datetime",
]

Instant = int
Millis = int

SECOND: Millis = 1_000
MINUTE: Millis = 60 * SECOND
HOUR: Millis = 60 * MINUTE
DAY: Millis = 24 * HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Clock(Protocol):
    """What tells the time. `SystemClock` in production, `rota.testing.FakeClock` in tests."""

    def now(self) -> Instant:
        """The wall clock, as an instant."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump, for measuring durations and deadlines inside one process."""
        ...


class SystemClock:
    """The host's clock."""

    def now(self) -> Instant:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)


def to_datetime(at: Instant) -> datetime:
    """The instant as an aware datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=at)


def from_datetime(moment: datetime) -> Instant:
    """The instant of an aware datetime, rounded down to the millisecond."""
    if moment.tzinfo is None:
        raise InvalidInput(f"The time {moment.isoformat()} has no zone. Give it one, e.g. tzinfo=datetime.UTC.")
    return (moment - _EPOCH) // _MILLISECOND


def isoformat(at: Instant | None) -> str | None:
    """ISO 8601 in UTC with milliseconds, the way every face prints an instant; None stays None."""
    if at is None:
        return None
    return f"{(_EPOCH + timedelta(milliseconds=at)).isoformat(timespec='milliseconds')[:-6]}Z"


_UNITS: dict[str, Millis] = {"ms": 1, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_LONGEST: Millis = 10 * 366 * DAY


def parse_duration(value: str | int | float | timedelta, *, what: str = "duration") -> Millis:
    """Milliseconds of "30m", "1h30m", a timedelta, or a bare number of seconds. Never negative, at most ten years."""
    total = _milliseconds(value, what)
    if not 0 <= total <= _LONGEST:
        raise InvalidInput(f"The {what} {value!r} is outside 0 to 10 years. Use something like '30m' or '1h30m'.")
    return total


def _milliseconds(value: str | int | float | timedelta, what: str) -> Millis:
    if isinstance(value, timedelta):
        return value // _MILLISECOND
    if isinstance(value, bool):
        raise InvalidInput(f"The {what} is {value!r}, which is no duration. Use something like '30m' or 1800.")
    if isinstance(value, int | float):
        if value != value or value in (float("inf"), float("-inf")):
            raise InvalidInput(f"The {what} is {value!r}, which is no duration. Use something like '30m' or 1800.")
        return round(min(max(value, -1.0), 1e15) * SECOND)
    text = value.strip().lower()
    if re.fullmatch(r"\d{1,15}(?:\.\d{1,3})?", text):
        return round(float(text) * SECOND)
    parts = _DURATION.findall(text) if len(text) <= 64 else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidInput(f"The {what} {value!r} is no duration. Use something like '30m', '1h30m' or 1800 (seconds).")
    return round(sum(float(number) * _UNITS[unit] for number, unit in parts))


def format_duration(span: Millis) -> str:
    """The shortest exact spelling: 5400000 is "1h30m"."""
    if span == 0:
        return "0s"
    parts: list[str] = []
    rest = span
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)
