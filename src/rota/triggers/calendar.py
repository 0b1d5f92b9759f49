"""A cron expression, parsed: which walls match, forwards, backwards and counted.

No zone here and no edges: a wall is a plain number of seconds (see `zone`). cronsim reads the fields and decides which
days match; the walk from one match to the next is ours: it has to be bounded, to go both ways and to be counted.

The dialect, checked here in full before anything is expanded:

    [second] minute hour day-of-month month day-of-week

    *  a  a-b  */n  a/n  a-b/n  and lists of these with commas; a/n means a-max/n
    months JAN-DEC, days SUN-SAT (0 and 7 are Sunday); upper or lower case
    day-of-month   L the last day, LW the last day that is Monday to Friday
    day-of-week    5L the last Friday, 5#2 or FRI#2 the second Friday
    @yearly @annually @monthly @weekly @daily @midnight @hourly

Day-of-month and day-of-week: if both are restricted, a day matches when *either* does; if one of them starts with `*`,
both must match (as in Debian's cron).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from calendar import monthrange
from datetime import date, datetime
from functools import lru_cache
from typing import NamedTuple

from cronsim import CronSim, CronSimError

from rota.errors import InvalidTrigger
from rota.triggers.zone import DAY_SECONDS, shown

__all__ = ["Calendar", "parse_calendar"]

_LONGEST_TEXT = 512
_EXAMPLE = "Use e.g. '0 9 * * MON-FRI' (minute hour day month weekday) or put a seconds field in front."
_MACROS = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
# A given weekday on 29 February comes back after 40 years at most (28, or 40 around 2100): nothing that fires at all
# stays silent for longer.
_LONGEST_SILENCE_DAYS = 41 * 366
_LAST_DAY = date(9_000, 1, 1).toordinal() - _EPOCH_ORDINAL
_FIRST_DAY = date(1900, 1, 1).toordinal() - _EPOCH_ORDINAL


@lru_cache(maxsize=1)
def _every_month() -> tuple[tuple[date, ...], ...]:
    """One month of each kind: the same name, length and first weekday make the same days. All come up in 28 years."""
    kinds: dict[tuple[int, int, int], tuple[date, ...]] = {}
    for year in range(2000, 2028):
        for month in range(1, 13):
            first_weekday, length = monthrange(year, month)
            days = tuple(date(year, month, day) for day in range(1, length + 1))
            kinds.setdefault((month, length, first_weekday), days)
    return tuple(kinds.values())


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def value(self, text: str) -> int | None:
        if text in self.names:
            return self.names.index(text) + self.low
        number = int(text) if text.isdigit() else -1
        return number if self.low <= number <= self.high else None


_FIELDS = (
    _Field("second", 0, 59),
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day-of-month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day-of-week", 0, 7, _DAYS),
)
_ATOM = r"[0-9]{1,2}|[A-Z]{3}"
_TERM = re.compile(rf"(?:\*|(?P<first>{_ATOM})(?:-(?P<last>{_ATOM}))?)(?:/(?P<step>[0-9]{{1,3}}))?")
_NTH = re.compile(rf"(?P<day>{_ATOM})#[1-5]")
_LAST_OF = re.compile(r"[0-7]L")


@lru_cache(maxsize=8_192)
def parse_calendar(expression: str) -> Calendar:
    """The calendar of an expression, or InvalidTrigger that says which field is wrong and what to write."""
    parts = _checked_parts(expression)
    try:
        sim = CronSim(" ".join(parts), datetime(2000, 1, 1))  # noqa: DTZ001 - a wall clock, and never walked
    except CronSimError:
        # Every field has passed our own check, which leaves the one thing that cronsim knows by itself.
        raise _never(expression) from None
    calendar = Calendar(sim)
    if not calendar.ever_fires():
        raise _never(expression)
    return calendar


def _never(expression: str) -> InvalidTrigger:
    return InvalidTrigger(
        f"The cron expression {shown(expression)} never fires: no month has such a day. "
        "Use e.g. '0 0 L * *' for the last day of every month."
    )


def _checked_parts(expression: str) -> list[str]:
    if len(expression) > _LONGEST_TEXT:
        raise InvalidTrigger(
            f"The cron expression {shown(expression)} is longer than {_LONGEST_TEXT} characters, the limit. {_EXAMPLE}"
        )
    if not expression.isascii():
        raise InvalidTrigger(f"The cron expression {shown(expression)} holds characters outside ASCII. {_EXAMPLE}")
    text = expression.strip().upper()
    parts = _MACROS.get(text, text).split()
    if len(parts) == 5:
        parts.insert(0, "0")
    if len(parts) != 6:
        count = len(parts)
        raise InvalidTrigger(f"The cron expression {shown(expression)} has {count} fields, not 5 or 6. {_EXAMPLE}")
    for field, part in zip(_FIELDS, parts, strict=True):
        for term in part.split(","):
            _check_term(expression, field, term)
    return parts


def _check_term(expression: str, field: _Field, term: str) -> None:
    if _is_special(field, term):
        return
    match = _TERM.fullmatch(term)
    if match is None:
        raise _bad(expression, field, term, "cannot be read" if term else "is empty")
    first, last, step = match["first"], match["last"], match["step"]
    low = field.low if first is None else field.value(first)
    high = low if last is None else field.value(last)
    if low is None or high is None:
        raise _bad(expression, field, term, f"is outside {field.low} to {field.high}")
    if high < low:
        hint = ": count Sunday as 7, or list the days" if field.names is _DAYS else ""
        raise _bad(expression, field, term, f"runs backwards{hint}")
    if step is not None:
        _check_step(expression, field, term, int(step))
        if last is not None and low == high:
            raise _bad(expression, field, term, "is a step through a range of one")


def _check_step(expression: str, field: _Field, term: str, step: int) -> None:
    most = 7 if field.names is _DAYS else field.high - field.low + 1
    if not 1 <= step <= most:
        raise _bad(expression, field, term, f"has a step outside 1 to {most} (for longer steps use an interval)")


def _is_special(field: _Field, term: str) -> bool:
    if field.name == "day-of-month":
        return term in {"L", "LW"}
    if field.names is not _DAYS:
        return False
    nth = _NTH.fullmatch(term)
    return bool(_LAST_OF.fullmatch(term)) or (nth is not None and field.value(nth["day"]) is not None)


def _bad(expression: str, field: _Field, term: str, why: str) -> InvalidTrigger:
    return InvalidTrigger(
        f"The {field.name} {shown(term)} of the cron expression {shown(expression)} {why}. {_EXAMPLE}"
    )


class Calendar:
    """The walls that match one expression. Every method is bounded: no loop is longer than 41 years of days."""

    __slots__ = ("_match_day", "hours", "minutes", "months", "per_day", "seconds", "sim")

    def __init__(self, sim: CronSim) -> None:
        self.sim = sim
        self.seconds = tuple(sorted(sim.seconds))
        self.minutes = tuple(sorted(sim.minutes))
        self.hours = tuple(sorted(sim.hours))
        self.months = frozenset(sim.months)
        self.per_day = len(self.seconds) * len(self.minutes) * len(self.hours)
        self._match_day = sim.match_day

    def ever_fires(self) -> bool:
        """Whether any month has a day that matches: a year has 12 months, and all of time has 91 different ones."""
        return any(self._match_day(day) for month in _every_month() if month[0].month in self.months for day in month)

    def after(self, wall: int) -> int | None:
        """The first match later than `wall`; None past the year 9000."""
        start, time = divmod(wall + 1, DAY_SECONDS)
        day = self._day_from(max(start, _FIRST_DAY))
        found = self._time_from(time) if day == start else None
        if day is not None and day == start and found is None:
            day = self._day_from(start + 1)
        if day is None:
            return None
        return day * DAY_SECONDS + (self._first_time() if found is None else found)

    def until(self, wall: int) -> int | None:
        """The last match that is not later than `wall`; None before the year 1900."""
        start, time = divmod(wall, DAY_SECONDS)
        day = self._day_until(min(start, _LAST_DAY))
        found = self._time_until(time) if day == start else None
        if day is not None and day == start and found is None:
            day = self._day_until(start - 1)
        if day is None:
            return None
        return day * DAY_SECONDS + (self._last_time() if found is None else found)

    def count(self, after: int, until: int) -> int:
        """How many matches lie in after < wall <= until. Costs one look at each day between."""
        if until <= after:
            return 0
        low_day, low_time = divmod(after + 1, DAY_SECONDS)
        high_day, high_time = divmod(until + 1, DAY_SECONDS)
        days = sum(1 for day in range(low_day, high_day) if self._matches(day))
        count = days * self.per_day
        if self._matches(low_day):
            count -= self._times_before(low_time)
        if self._matches(high_day):
            count += self._times_before(high_time)
        return count

    def _matches(self, day: int) -> bool:
        when = date.fromordinal(day + _EPOCH_ORDINAL)
        return when.month in self.months and self._match_day(when)

    def _day_from(self, day: int) -> int | None:
        end = min(day + _LONGEST_SILENCE_DAYS, _LAST_DAY)
        while day <= end:
            when = date.fromordinal(day + _EPOCH_ORDINAL)
            if when.month not in self.months:
                day = self._month_from(when)
            elif self._match_day(when):
                return day
            else:
                day += 1
        return None

    def _day_until(self, day: int) -> int | None:
        end = max(day - _LONGEST_SILENCE_DAYS, _FIRST_DAY)
        while day >= end:
            when = date.fromordinal(day + _EPOCH_ORDINAL)
            if when.month not in self.months:
                day = self._month_until(when)
            elif self._match_day(when):
                return day
            else:
                day -= 1
        return None

    def _month_from(self, when: date) -> int:
        """The first day of the next month that matches."""
        year, month = when.year, when.month
        while month not in self.months:
            year, month = (year + 1, 1) if month == 12 else (year, month + 1)
        return date(year, month, 1).toordinal() - _EPOCH_ORDINAL

    def _month_until(self, when: date) -> int:
        """The last day of the month before that matches."""
        year, month = when.year, when.month
        while True:
            first = date(year, month, 1)
            year, month = (year - 1, 12) if month == 1 else (year, month - 1)
            if month in self.months:
                return first.toordinal() - _EPOCH_ORDINAL - 1

    def _first_time(self) -> int:
        return self.hours[0] * 3_600 + self.minutes[0] * 60 + self.seconds[0]

    def _last_time(self) -> int:
        return self.hours[-1] * 3_600 + self.minutes[-1] * 60 + self.seconds[-1]

    def _time_from(self, time: int) -> int | None:
        """The first time of day that matches, from `time` on."""
        index = self._times_before(time)
        return self._time_number(index) if index < self.per_day else None

    def _time_until(self, time: int) -> int | None:
        index = self._times_before(time + 1)
        return self._time_number(index - 1) if index else None

    def _times_before(self, time: int) -> int:
        """How many times of day match before `time`: also the number of the first one from there on."""
        hour, rest = divmod(time, 3_600)
        minute, second = divmod(rest, 60)
        per_hour, per_minute = len(self.minutes) * len(self.seconds), len(self.seconds)
        count = bisect_left(self.hours, hour) * per_hour
        if bisect_right(self.hours, hour) * per_hour > count:
            count += bisect_left(self.minutes, minute) * per_minute
            if minute in self.sim.minutes:
                count += bisect_left(self.seconds, second)
        return count

    def _time_number(self, index: int) -> int:
        rest, second = divmod(index, len(self.seconds))
        hour, minute = divmod(rest, len(self.minutes))
        return self.hours[hour] * 3_600 + self.minutes[minute] * 60 + self.seconds[second]
