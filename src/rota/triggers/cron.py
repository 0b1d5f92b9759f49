"""Cron in a zone: the calendar's walls, brought to instants by one rule for each kind of job.

**Wall jobs** name hours ("30 2 * * *", "0 9-17 * * *", "*/15 2 * * *"): each wall that matches fires exactly once per
local day. In a gap it moves to the gap's end (several that land there are one fire); in a fold it is the first.

**Elapsed jobs** match every hour of the day ("*/15 * * * *", "0 * * * *"): they go by elapsed time, and fire whenever
the clock shows a wall that matches. An hour that is skipped has no fire and none is made up for it; an hour that is
repeated fires in both passes. A job every 15 minutes so stays 15 minutes apart across both edges.

The difference lies in the hours that match and not in how they are spelt: "0 0-23 * * *" is "0 * * * *".

cronsim makes the difference by a leading `*` and leaves jobs with a seconds field to the second rule; a daily job at
"0 30 2 * * *" would then be lost in a gap and run twice in a fold. Rota treats both spellings alike.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import msgspec

from rota.clock import DAY, Instant
from rota.triggers.calendar import Calendar, parse_calendar
from rota.triggers.zone import (
    edges_between,
    fold_at,
    gap_at,
    highest_wall,
    instant_of_wall,
    offset_at,
    wall_datetime,
    wall_offsets,
    zone,
)

__all__ = ["Cron"]

_EARLIEST = -2_208_902_400  # 1900-01-02 in seconds: a day inside the calendar's range, whatever the offset
_LATEST = 221_845_305_600  # 8999-12-31, likewise
_COUNTED_SPAN = 3_660 * DAY  # ten years: beyond that a count would take longer than a claim may


class Cron(msgspec.Struct, frozen=True, tag_field="kind", tag="cron"):
    """Fires at the walls of `timezone` that match `expression`: dialect in `calendar`, rule of the edges above."""

    kind: ClassVar[str] = "cron"

    expression: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        parse_calendar(self.expression)
        zone(self.timezone)

    @property
    def calendar(self) -> Calendar:
        """The walls that match, without a zone."""
        return parse_calendar(self.expression)

    @property
    def by_elapsed_time(self) -> bool:
        """Whether the job goes by elapsed time: it fires in every hour of the day."""
        return len(self.calendar.hours) == 24

    def next_after(self, at: Instant) -> Instant | None:
        """The first fire later than `at`; None past the year 8999."""
        second = max(at // 1_000, _EARLIEST)
        if second > _LATEST:
            return None
        found = self._next_elapsed(second) if self.by_elapsed_time else self._next_wall(second)
        return None if found is None else found * 1_000

    def latest_until(self, at: Instant) -> Instant | None:
        """The last fire that is not later than `at`; None before the year 1900."""
        second = min(at // 1_000, _LATEST)
        if second < _EARLIEST:
            return None
        found = self._latest_elapsed(second) if self.by_elapsed_time else self._latest_wall(second)
        return None if found is None else found * 1_000

    def count(self, after: Instant, until: Instant) -> int | None:
        """How many fires lie in after < fire <= until: exact by arithmetic, None for more than ten years."""
        if until <= after:
            return 0
        if until - after > _COUNTED_SPAN:
            return None
        low, high = after // 1_000, until // 1_000
        if low < _EARLIEST or high > _LATEST:
            return None
        return self._count_elapsed(low, high) if self.by_elapsed_time else self._count_walls(low, high)

    def moved_to(self, fire_at: Instant) -> tuple[datetime, ...]:
        """The walls that do not exist and fire at `fire_at` instead: the first and the last of them, if any."""
        second = fire_at // 1_000
        before, after = offset_at(zone(self.timezone), second - 1), offset_at(zone(self.timezone), second)
        if after <= before or self.by_elapsed_time:
            return ()
        first = self.calendar.after(second + before - 1)
        if first is None or first >= second + after:
            return ()
        last = self.calendar.until(second + after - 1)
        assert last is not None, "the first one is such a wall"
        return (wall_datetime(first),) if first == last else (wall_datetime(first), wall_datetime(last))

    def happens_twice(self, fire_at: Instant) -> bool:
        """Whether the wall of this fire is repeated, so that only its first pass fires."""
        return not self.by_elapsed_time and fold_at(zone(self.timezone), fire_at // 1_000) is not None

    def _next_wall(self, second: int) -> int | None:
        tz = zone(self.timezone)
        wall = self.calendar.after(highest_wall(tz, second))
        return None if wall is None else instant_of_wall(tz, wall)

    def _latest_wall(self, second: int) -> int | None:
        tz = zone(self.timezone)
        wall = self.calendar.until(highest_wall(tz, second))
        return None if wall is None else instant_of_wall(tz, wall)

    def _count_walls(self, low: int, high: int) -> int:
        tz = zone(self.timezone)
        count = self.calendar.count(highest_wall(tz, low), highest_wall(tz, high))
        for edge in edges_between(tz, low, high):
            # All walls of a gap, and the wall of its end, are one fire.
            together = self.calendar.count(edge.at + edge.before - 1, edge.at + edge.after)
            count -= max(0, together - 1)
        return count

    def _next_elapsed(self, second: int) -> int | None:
        tz, calendar = zone(self.timezone), self.calendar
        fold = fold_at(tz, second)
        wall = second + offset_at(tz, second)
        if fold is not None:
            end = fold.at + fold.before
            if second < fold.at:
                found = calendar.after(wall)
                if found is not None and found < end:
                    return found - fold.before
                wall = fold.at + fold.after - 1
            found = calendar.after(wall)
            if found is not None and found < end:
                return found - fold.after
            wall = end - 1
        while (found := calendar.after(wall)) is not None:
            gap = gap_at(tz, found)
            if gap is None:
                return found - wall_offsets(tz, found)[0]
            wall = gap.at + gap.after - 1
        return None

    def _latest_elapsed(self, second: int) -> int | None:
        tz, calendar = zone(self.timezone), self.calendar
        fold = fold_at(tz, second)
        wall = second + offset_at(tz, second)
        if fold is not None:
            start = fold.at + fold.after
            if second >= fold.at:
                found = calendar.until(wall)
                if found is not None and found >= start:
                    return found - fold.after
                wall = fold.at + fold.before - 1
            found = calendar.until(wall)
            if found is not None and found >= start:
                return found - fold.before
            wall = start - 1
        while (found := calendar.until(wall)) is not None:
            gap = gap_at(tz, found)
            if gap is None:
                return found - wall_offsets(tz, found)[1]
            wall = gap.at + gap.before - 1
        return None

    def _count_elapsed(self, low: int, high: int) -> int:
        tz = zone(self.timezone)
        count, start, offset = 0, low, offset_at(tz, low)
        for edge in edges_between(tz, low, high):
            count += self.calendar.count(start + offset, edge.at - 1 + offset)
            start, offset = edge.at - 1, edge.after
        return count + self.calendar.count(start + offset, high + offset)
