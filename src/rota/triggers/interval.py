"""Every so many milliseconds, on a grid that never drifts."""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

from rota.clock import DAY, SECOND, Instant, Millis, parse_duration
from rota.errors import InvalidInput, InvalidTrigger
from rota.triggers.zone import shown

__all__ = ["LONGEST_INTERVAL", "SHORTEST_INTERVAL", "Interval", "parse_interval"]

SHORTEST_INTERVAL: Millis = SECOND
LONGEST_INTERVAL: Millis = 10 * 366 * DAY

_EXAMPLE = "Use whole milliseconds such as '1800000', or a duration such as '30m' or '1h30m'."
_INTEGER = re.compile(r"[0-9]{1,15}")
_DURATION = re.compile(r"(?:[0-9]{1,15}(?:\.[0-9]{1,6})?(?:ms|s|m|h|d|w)){1,6}", re.IGNORECASE)


class Interval(msgspec.Struct, frozen=True, tag_field="kind", tag="interval"):
    """Fires at `anchor_at + n * every_ms` for n = 0, 1, 2, ...: late runs and restarts never shift the grid."""

    kind: ClassVar[str] = "interval"

    every_ms: Millis
    anchor_at: Instant

    def __post_init__(self) -> None:
        if not SHORTEST_INTERVAL <= self.every_ms <= LONGEST_INTERVAL:
            raise InvalidTrigger(
                f"The interval of {self.every_ms} ms is outside the limits of 1 second to 10 years. {_EXAMPLE}"
            )

    def next_after(self, at: Instant) -> Instant | None:
        """The first fire later than `at`."""
        if at < self.anchor_at:
            return self.anchor_at
        return at + self.every_ms - (at - self.anchor_at) % self.every_ms

    def latest_until(self, at: Instant) -> Instant | None:
        """The last fire that is not later than `at`; None before the anchor."""
        if at < self.anchor_at:
            return None
        return at - (at - self.anchor_at) % self.every_ms

    def count(self, after: Instant, until: Instant) -> int | None:
        """How many fires lie in after < fire <= until: exact, by arithmetic."""
        return max(0, self._fires_until(until) - self._fires_until(after))

    def _fires_until(self, at: Instant) -> int:
        return 0 if at < self.anchor_at else (at - self.anchor_at) // self.every_ms + 1


def parse_interval(value: str | int, *, anchor_at: Instant) -> Interval:
    """An interval of NanoClaw's form (milliseconds, as a number or its digits) or of a duration with units."""
    return Interval(every_ms=_milliseconds(value), anchor_at=anchor_at)


def _milliseconds(value: str | int) -> Millis:
    # Typed callers cannot hand in True or 1.5, but JSON can.
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if _INTEGER.fullmatch(text):
        return int(text)
    if not _DURATION.fullmatch(text):
        quoted = shown(value) if isinstance(value, str) else repr(value)
        raise InvalidTrigger(f"The interval {quoted} is neither milliseconds nor a duration. {_EXAMPLE}")
    try:
        return parse_duration(text, what="interval")
    except InvalidInput as error:
        raise InvalidTrigger(str(error)) from None
