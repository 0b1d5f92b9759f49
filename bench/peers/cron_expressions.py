"""The schedules that are asked for their next fire, the same for every library."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

__all__ = ["COUNT", "NOW", "ZONE", "expressions"]

COUNT: Final = 100_000
ZONE: Final = "Europe/Berlin"
NOW: Final = datetime(2026, 11, 18, 12, 34, 56, tzinfo=UTC)
_KINDS: Final = (
    "{minute} {hour} * * *",
    "{minute} {hour} * * mon-fri",
    "*/15 * * * *",
    "{minute} * * * *",
    "{minute} {hour} {day} * *",
)


def expressions(count: int) -> list[str]:
    """Daily, on weekdays, every quarter of an hour, hourly and monthly, as users choose them."""
    return [
        _KINDS[number % len(_KINDS)].format(minute=number % 60, hour=number // 60 % 24, day=1 + number % 28)
        for number in range(count)
    ]
