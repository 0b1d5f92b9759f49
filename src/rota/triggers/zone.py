"""Zones: IANA names, and the two places a year where wall clock and time disagree.

Inside this package a *wall* is what the clock on the wall shows, as whole seconds since 1970-01-01T00:00:00 on that
same clock, and a *second* is the instant in whole seconds. Both are plain integers, so the rules of the edges read as
arithmetic:

    gap    the clock is put forward: the walls from `at + before` up to `at + after` do not exist
    fold   the clock is put back: the walls from `at + after` up to `at + before` happen twice

Rota's rule for a wall that is meant to happen once: in a gap it moves to the gap's end, in a fold it is the first.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from rota.clock import Instant
from rota.errors import InvalidTrigger

__all__ = [
    "DAY_SECONDS",
    "Edge",
    "default_timezone",
    "edges_between",
    "fold_at",
    "gap_at",
    "highest_wall",
    "instant_of",
    "instant_of_wall",
    "offset_at",
    "shown",
    "wall_datetime",
    "wall_offsets",
    "zone",
]

DAY_SECONDS = 86_400

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")
# Files in a zone directory that are no zone: the host's own choice, an empty one, copies that count leap seconds.
_NO_ZONE = frozenset({"localtime", "posixrules", "factory"})
_NO_FOLDER = ("posix/", "right/")
_WALL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock has no zone by definition


class Edge(NamedTuple):
    """One change of a zone's offset: the first second with the new offset, and both offsets in seconds."""

    at: int
    before: int
    after: int


def shown(text: str, limit: int = 60) -> str:
    """A value as an error message quotes it: hostile input is cut short."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}... ({len(text)} characters)"


@lru_cache(maxsize=1_024)
def zone(name: str) -> ZoneInfo:
    """The zone of an IANA name such as "Europe/Berlin"; anything else is refused with a suggestion."""
    if len(name) <= 64 and _NAME.fullmatch(name) and _is_zone_name(name):
        try:
            return ZoneInfo(name)
        except (OSError, ValueError, LookupError):
            pass
    raise InvalidTrigger(f"The timezone {shown(name)} is no IANA zone. {_advice(name)}")


def _is_zone_name(name: str) -> bool:
    return name.lower() not in _NO_ZONE and not name.lower().startswith(_NO_FOLDER)


def _advice(name: str) -> str:
    near = _nearest(name) if len(name) <= 64 else None
    if near is not None:
        return f"Did you mean {near!r}?"
    return "Use a name of the IANA database, e.g. 'Europe/Berlin', 'America/New_York' or 'UTC'."


def _nearest(name: str) -> str | None:
    by_lower = {known.lower(): known for known in _known_zones()}
    wanted = name.strip().replace(" ", "_").lower()
    by_city = {lower.rsplit("/", 1)[-1]: known for lower, known in by_lower.items()}
    exact = by_lower.get(wanted) or by_city.get(wanted)
    if exact is not None:
        return exact
    close = difflib.get_close_matches(wanted, by_lower, n=1, cutoff=0.75)
    return by_lower[close[0]] if close else None


@lru_cache(maxsize=1)
def _known_zones() -> tuple[str, ...]:
    return tuple(sorted(name for name in available_timezones() if _is_zone_name(name)))


def default_timezone(environ: Mapping[str, str], configured: str | None) -> str:
    """The zone of schedules that name none: config, `ROTA_TIMEZONE`, `TIMEZONE`, `TZ`, else UTC.

    What was written for Rota must be right, so a bad value there is refused. `TIMEZONE` and `TZ` belong to everybody
    and may hold other forms ("IST-2", ":/etc/localtime"): those are passed over.
    """
    for name in (configured, environ.get("ROTA_TIMEZONE")):
        if name:
            return zone(name).key
    for variable in ("TIMEZONE", "TZ"):
        name = environ.get(variable, "").removeprefix(":")
        if name and _is_usable(name):
            return name
    return "UTC"


def _is_usable(name: str) -> bool:
    try:
        zone(name)
    except InvalidTrigger:
        return False
    return True


def offset_at(tz: ZoneInfo, second: int) -> int:
    """Seconds east of UTC at this instant."""
    return _seconds(datetime.fromtimestamp(second, tz).utcoffset())


def wall_offsets(tz: ZoneInfo, wall: int) -> tuple[int, int]:
    """The offsets of the first and of the second reading of a wall: equal but at an edge (PEP 495).

    In a fold the first is the larger one, in a gap the smaller one.
    """
    moment = (_WALL_EPOCH + timedelta(seconds=wall)).replace(tzinfo=tz)
    return _seconds(moment.utcoffset()), _seconds(moment.replace(fold=1).utcoffset())


def gap_at(tz: ZoneInfo, wall: int) -> Edge | None:
    """The gap that swallows this wall, if one does."""
    first, second = wall_offsets(tz, wall)
    if first >= second:
        return None
    return Edge(_change(tz, wall - second, wall - first), first, second)


def fold_at(tz: ZoneInfo, second: int) -> Edge | None:
    """The fold in which this instant lies, in its first or its second pass."""
    wall = second + offset_at(tz, second)
    before, after = wall_offsets(tz, wall)
    if before <= after:
        return None
    return Edge(_change(tz, wall - before, wall - after), before, after)


def edges_between(tz: ZoneInfo, after: int, until: int) -> Iterator[Edge]:
    """Every edge with after < at <= until. Looks once a day: no zone changes twice in one."""
    low, before = after, offset_at(tz, after)
    while low < until:
        high = min(low + DAY_SECONDS, until)
        later = offset_at(tz, high)
        if later != before:
            yield Edge(_change(tz, low, high), before, later)
        low, before = high, later


def instant_of_wall(tz: ZoneInfo, wall: int) -> int:
    """The second at which this wall happens: the first of two in a fold, the gap's end for one that never does.

    It never decreases as the wall grows, which is what makes `highest_wall` its inverse.
    """
    gap = gap_at(tz, wall)
    return gap.at if gap else wall - wall_offsets(tz, wall)[0]


def highest_wall(tz: ZoneInfo, second: int) -> int:
    """The last wall with `instant_of_wall(wall) <= second`: in the second pass of a fold, the whole fold is behind."""
    moment = datetime.fromtimestamp(second, tz)
    if moment.fold:
        fold = fold_at(tz, second)
        if fold is not None:
            return fold.at + fold.before - 1
    return second + _seconds(moment.utcoffset())


def instant_of(tz: ZoneInfo, moment: datetime) -> Instant:
    """The instant of a datetime without offset, read on the wall of this zone, to the millisecond."""
    span = moment - _WALL_EPOCH
    wall = span.days * DAY_SECONDS + span.seconds
    if gap := gap_at(tz, wall):
        return gap.at * 1_000
    return instant_of_wall(tz, wall) * 1_000 + moment.microsecond // 1_000


def wall_datetime(wall: int) -> datetime:
    """A wall as a datetime without zone, for printing."""
    return _WALL_EPOCH + timedelta(seconds=wall)


def _change(tz: ZoneInfo, low: int, high: int) -> int:
    """The first second after `low` whose offset differs from the one at `low`; there is exactly one up to `high`."""
    old = offset_at(tz, low)
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(tz, middle) == old:
            low = middle
        else:
            high = middle
    return high


def _seconds(offset: timedelta | None) -> int:
    assert offset is not None, "a ZoneInfo always has an offset"
    return offset.days * DAY_SECONDS + offset.seconds
