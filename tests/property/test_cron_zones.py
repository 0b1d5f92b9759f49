"""Every zone of the IANA database, every change of its clock from 2020 to 2040, minute by minute against an oracle.

The oracle knows nothing of offsets at edges: it writes down what the clock on the wall shows at every minute around the
change, and reads the answer off that list.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pytest
from tests.property.fires import fires_between

from rota.clock import HOUR, MINUTE, Instant, from_datetime, to_datetime
from rota.triggers import Cron

PARTS = 16
FROM, UNTIL = from_datetime(datetime(2020, 1, 1, tzinfo=UTC)), from_datetime(datetime(2041, 1, 1, tzinfo=UTC))
LOOK = 3 * 24 * HOUR
AROUND = 38 * HOUR
ELAPSED_JOBS = ("*/15 * * * *", "0 * * * *", "7,52 * * * *")


class Change(NamedTuple):
    at: Instant
    before: timedelta
    after: timedelta


@lru_cache(maxsize=1)
def distinct_zones() -> tuple[tuple[str, tuple[Change, ...]], ...]:
    """One zone of each kind: zones that show the same time from 2020 to 2040 are tested once."""
    kinds: dict[tuple[timedelta, tuple[Change, ...]], str] = {}
    for name in sorted(available_timezones() - {"localtime", "Factory"}):
        kinds.setdefault((offset(name, FROM), changes(name)), name)
    return tuple((name, found) for (_, found), name in kinds.items())


def changes(name: str) -> tuple[Change, ...]:
    moments = range(FROM, UNTIL, LOOK)
    offsets = [offset(name, moment) for moment in moments]
    return tuple(
        Change(first_with(name, low, high, after), before, after)
        for (low, high), (before, after) in zip(pairwise(moments), pairwise(offsets), strict=True)
        if before != after
    )


def first_with(name: str, low: Instant, high: Instant, wanted: timedelta) -> Instant:
    while high - low > MINUTE:
        middle = (low + high) // 2 // MINUTE * MINUTE
        low, high = (low, middle) if offset(name, middle) == wanted else (middle, high)
    return high


def offset(name: str, at: Instant) -> timedelta:
    found = to_datetime(at).astimezone(ZoneInfo(name)).utcoffset()
    assert found is not None
    return found


class Clock:
    """What the wall shows at every minute around one change."""

    def __init__(self, name: str, change: Change) -> None:
        zone = ZoneInfo(name)
        self.instants = range(change.at - AROUND, change.at + AROUND, MINUTE)
        self.walls = [to_datetime(at).astimezone(zone).replace(tzinfo=None) for at in self.instants]
        self.first: dict[datetime, Instant] = {}
        for at, wall in zip(self.instants, self.walls, strict=True):
            self.first.setdefault(wall, at)

    def fire(self, wall: datetime) -> Instant:
        """When a job meant for this wall runs: the first time it shows, or the first minute that shows a later one."""
        shown = self.first.get(wall)
        if shown is not None:
            return shown
        return next(at for at, later in zip(self.instants, self.walls, strict=True) if later > wall)

    def minutes(self, wanted: set[int]) -> list[Instant]:
        return [at for at, wall in zip(self.instants, self.walls, strict=True) if wall.minute in wanted]


def walls_around(change: Change) -> list[datetime]:
    """Every minute of the gap or fold, and three on either side."""
    at = to_datetime(change.at).replace(tzinfo=None)
    low, high = sorted((at + change.before, at + change.after))
    count = (high - low) // timedelta(minutes=1)
    return [low + timedelta(minutes=minute) for minute in range(-3, count + 4)]


def walk_back(cron: Cron, after: Instant, until: Instant) -> list[Instant]:
    found: list[Instant] = []
    fire_at = cron.latest_until(until)
    while fire_at is not None and fire_at > after:
        found.append(fire_at)
        fire_at = cron.latest_until(fire_at - 1)
    return found[::-1]


def check_fixed_jobs(name: str, change: Change, clock: Clock) -> None:
    for wall in walls_around(change):
        days = (wall - timedelta(days=1), wall, wall + timedelta(days=1))
        expected = sorted({clock.fire(day) for day in days})
        cron = Cron(f"{wall.minute} {wall.hour} * * *", name)
        after, until = change.at - 36 * HOUR, change.at + 36 * HOUR
        expected = [fire_at for fire_at in expected if after < fire_at <= until]
        assert fires_between(cron, after, until) == expected, (name, wall)
        assert walk_back(cron, after, until) == expected, (name, wall)
        assert len(expected) == 3, "exactly once on each of the three local days"


def check_elapsed_jobs(name: str, change: Change, clock: Clock) -> None:
    after, until = change.at - 5 * HOUR, change.at + 5 * HOUR
    for expression, wanted in zip(ELAPSED_JOBS, ({0, 15, 30, 45}, {0}, {7, 52}), strict=True):
        every = clock.minutes(wanted)
        expected = every[bisect_right(every, after) : bisect_left(every, until + 1)]
        cron = Cron(expression, name)
        assert fires_between(cron, after, until) == expected, (name, expression, change)
        assert walk_back(cron, after, until) == expected, (name, expression, change)
        assert cron.count(after, until) == len(expected)


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_zone_and_every_change_of_its_clock(part: int) -> None:
    for name, found in distinct_zones()[part::PARTS]:
        for change in found:
            clock = Clock(name, change)
            check_fixed_jobs(name, change, clock)
            check_elapsed_jobs(name, change, clock)


def test_the_zones_are_all_there() -> None:
    zones = distinct_zones()
    assert len(available_timezones()) > 400
    assert sum(len(found) for _, found in zones) > 1_000
    shifts = {abs(change.after - change.before) for _, found in zones for change in found}
    assert {timedelta(minutes=30), timedelta(hours=1), timedelta(hours=2)} <= shifts


@pytest.mark.parametrize("part", range(PARTS))
def test_every_name_of_the_database_is_a_zone(part: int) -> None:
    """Zones of one kind share the test above; that each of them loads and fires is seen here."""
    for name in sorted(available_timezones() - {"localtime", "Factory"})[part::PARTS]:
        assert len(fires_between(Cron("0 9 * * *", name), FROM, FROM + 72 * HOUR)) == 3
