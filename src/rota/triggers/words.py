"""A cron calendar in plain English. Works from what matches, so two spellings of one thing read alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cronsim import CronSim

from rota.triggers.calendar import Calendar

__all__ = ["describe_calendar"]

_DAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", CronSim.LAST: "last"}
_MOST_TIMES = 6


def describe_calendar(calendar: Calendar) -> str:
    """For example "at 09:00, Monday to Friday"."""
    times, days, months = _times(calendar), _days(calendar), _months(calendar)
    if not days and calendar.per_day <= _MOST_TIMES:
        days = "every day"
    return ", ".join(part for part in (times, days, months) if part)


def _times(calendar: Calendar) -> str:
    seconds, minutes, hours = calendar.seconds, calendar.minutes, calendar.hours
    if calendar.per_day <= _MOST_TIMES:
        shown = (0,) if seconds == (0,) else seconds
        return "at " + _listed(
            _clock(hour, minute, second if shown != (0,) else None)
            for hour in hours
            for minute in minutes
            for second in shown
        )
    if seconds == (0,):
        return _minutes_and_hours(minutes, hours)
    every = _step(seconds, 60, "second")
    words = every or f"at {_numbered('second', seconds)}"
    if len(minutes) == 60 and len(hours) == 24:
        return words if every else f"{words} of every minute"
    return f"{words}, {_minutes_and_hours(minutes, hours)}"


def _minutes_and_hours(minutes: Sequence[int], hours: Sequence[int]) -> str:
    every = _step(minutes, 60, "minute")
    if len(hours) == 24:
        return "every hour" if minutes == (0,) else every or f"at {_numbered('minute', minutes)} of every hour"
    step = _hour_step(hours)
    if minutes == (0,) and step:
        return f"every {step} hours"
    if _is_run(hours):
        span = f"from {_clock(hours[0], minutes[0])} to {_clock(hours[-1], minutes[-1])}"
        if len(minutes) == 1:
            return f"every hour {span}"
        if every:
            return f"{every} {span}"
    of = f"of every {_nth(step)} hour" if step else f"of {_numbered('hour', hours)}"
    return f"{every or 'at ' + _numbered('minute', minutes)} {of}"


def _step(values: Sequence[int], size: int, unit: str) -> str:
    """ "every 15 minutes" if the values go round the clock evenly, else nothing."""
    if len(values) == size:
        return f"every {unit}"
    step = _even_step(values, size)
    return f"every {step} {unit}s" if step else ""


def _hour_step(hours: Sequence[int]) -> int:
    return _even_step(hours, 24)


def _even_step(values: Sequence[int], size: int) -> int:
    """The distance of values that start at 0 and go round evenly; 0 if they do not."""
    if len(values) < 2 or size % len(values):
        return 0
    step = size // len(values)
    return step if tuple(values) == tuple(range(0, size, step)) else 0


def _days(calendar: Calendar) -> str:
    sim = calendar.sim
    of_month, of_week = _days_of_month(sim), _days_of_week(sim)
    if of_month and of_week:
        return f"{of_month} if it is {of_week}" if sim.day_and else f"{of_month} or on {of_week}"
    return of_month or (f"on {of_week}" if of_week.startswith("the ") else of_week)


def _days_of_month(sim: CronSim) -> str:
    numbers = sorted(day for day in sim.days if day > 0)
    if len(numbers) == 31:
        return ""
    parts: list[str] = []
    if numbers:
        parts.append(f"on {_numbered('day', numbers)} of the month")
    if CronSim.LAST in sim.days:
        parts.append("on the last day of the month")
    if CronSim.LAST_WEEKDAY in sim.days:
        parts.append("on the last weekday of the month")
    return _listed(parts)


def _days_of_week(sim: CronSim) -> str:
    plain = {item for item in sim.weekdays if isinstance(item, int)}
    special = sorted(item for item in sim.weekdays if not isinstance(item, int))
    days = sorted({(day - 1) % 7 + 1 for day in plain})  # Monday is 1, Sunday is 7
    if len(days) == 7:
        return ""
    parts = [_run_or_list([_DAY_NAMES[day] for day in days], is_run=_is_run(days))] if days else []
    parts.extend(f"the {_ORDINALS[nth]} {_DAY_NAMES[day]} of the month" for day, nth in special)
    return _listed(parts)


def _months(calendar: Calendar) -> str:
    months = sorted(calendar.months)
    if len(months) == 12:
        return ""
    return "in " + _run_or_list([_MONTH_NAMES[month - 1] for month in months], is_run=_is_run(months))


def _is_run(values: Sequence[int]) -> bool:
    return len(values) > 2 and values[-1] - values[0] == len(values) - 1


def _run_or_list(names: Sequence[str], *, is_run: bool) -> str:
    return f"{names[0]} to {names[-1]}" if is_run else _listed(names)


def _numbered(unit: str, values: Sequence[int]) -> str:
    if len(values) == 1:
        return f"{unit} {values[0]}"
    return f"{unit}s {_run_or_list([str(value) for value in values], is_run=_is_run(values))}"


def _listed(parts: Iterable[str]) -> str:
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def _nth(number: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(number, f"{number}th")


def _clock(hour: int, minute: int, second: int | None = None) -> str:
    return f"{hour:02}:{minute:02}" if second is None else f"{hour:02}:{minute:02}:{second:02}"
