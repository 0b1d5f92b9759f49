"""Cron, for any expression: later, fitting, agreeing in both directions, and counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.clock import DAY, Instant, from_datetime, to_datetime
from rota.triggers import Cron

ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Antarctica/Troll")


class Field(NamedTuple):
    """A field's text beside the values that it means, so that no test has to parse."""

    text: str
    values: frozenset[int]


def fields(low: int, high: int, top: int | None = None) -> st.SearchStrategy[Field]:
    """Any field with values up to `high`; a star goes up to `top`."""
    all_values = range(low, (high if top is None else top) + 1)
    every = st.just(Field("*", frozenset(all_values)))
    one = st.integers(low, high).map(lambda value: Field(str(value), frozenset({value})))
    step = st.integers(1, high).map(lambda n: Field(f"*/{n}", frozenset(all_values[::n])))
    span = st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda pair: _span(*sorted(pair)))
    few = st.lists(st.one_of(one, span), min_size=1, max_size=3).map(_union)
    return st.one_of(every, one, step, few)


def _span(first: int, last: int) -> Field:
    return Field(f"{first}-{last}", frozenset(range(first, last + 1)))


def _union(parts: list[Field]) -> Field:
    return Field(",".join(part.text for part in parts), frozenset[int]().union(*(part.values for part in parts)))


class Expression(NamedTuple):
    second: Field
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def text(self) -> str:
        return " ".join(field.text for field in self)

    def fits(self, moment: datetime) -> bool:
        return (
            moment.second in self.second.values
            and moment.minute in self.minute.values
            and moment.hour in self.hour.values
            and moment.month in self.month.values
            and self._fits_day(moment)
        )

    def _fits_day(self, moment: datetime) -> bool:
        in_month = moment.day in self.day.values
        in_week = bool({moment.isoweekday(), moment.isoweekday() % 7} & self.weekday.values)
        if self.day.text.startswith("*") or self.weekday.text.startswith("*"):
            return in_month and in_week
        return in_month or in_week


# Days up to 28: every one of them exists, so that every expression fires within a few years.
expressions = st.builds(
    Expression, fields(0, 59), fields(0, 59), fields(0, 23), fields(1, 28, 31), fields(1, 12), fields(0, 6, 7)
)
instants = st.integers(from_datetime(datetime(2020, 1, 1, tzinfo=UTC)), from_datetime(datetime(2040, 1, 1, tzinfo=UTC)))
relaxed = settings(max_examples=300)


@relaxed
@given(expressions, instants)
def test_the_walk_agrees_with_cronsim_where_no_clock_changes(expression: Expression, at: Instant) -> None:
    cron, moment = Cron(expression.text), to_datetime(at)
    later = next(CronSim(expression.text, moment))
    assert cron.next_after(at) == from_datetime(later)
    # Backwards cronsim is strict too, and our latest is not.
    earlier = next(CronSim(expression.text, to_datetime(at // 1_000 * 1_000) + timedelta(seconds=1), reverse=True))
    assert cron.latest_until(at) == from_datetime(earlier)


@relaxed
@given(expressions, instants, st.sampled_from(ZONES))
def test_a_fire_is_later_and_fits_its_fields(expression: Expression, at: Instant, timezone: str) -> None:
    cron = Cron(expression.text, timezone)
    fire_at = cron.next_after(at)
    assert fire_at is not None
    assert fire_at > at
    wall = to_datetime(fire_at).astimezone(ZoneInfo(timezone)).replace(tzinfo=None)
    assert expression.fits(wall) or any(expression.fits(missing) for missing in cron.moved_to(fire_at))


@relaxed
@given(expressions, instants, st.sampled_from(ZONES))
def test_both_directions_agree(expression: Expression, at: Instant, timezone: str) -> None:
    cron = Cron(expression.text, timezone)
    later, latest = cron.next_after(at), cron.latest_until(at)
    assert later is not None
    assert latest is not None
    assert latest <= at < later
    assert cron.latest_until(later) == later
    assert cron.latest_until(later - 1) == latest, "nothing lies between"
    assert cron.next_after(latest) == later
    assert cron.next_after(latest - 1) == latest


@relaxed
@given(expressions, instants, st.sampled_from(ZONES), st.integers(1, 300))
def test_a_count_is_what_a_walk_counts(expression: Expression, at: Instant, timezone: str, steps: int) -> None:
    cron, fire_at = Cron(expression.text, timezone), at
    for _ in range(steps):
        following = cron.next_after(fire_at)
        assert following is not None
        fire_at = following
    expected = steps if fire_at - at <= 3_660 * DAY else None
    assert cron.count(at, fire_at) == expected


@relaxed
@given(fields(0, 59), st.sampled_from(ZONES), instants)
def test_jobs_of_every_hour_fire_exactly_when_the_wall_fits(minute: Field, timezone: str, at: Instant) -> None:
    cron, zone = Cron(f"{minute.text} * * * *", timezone), ZoneInfo(timezone)
    start = at // 60_000 * 60_000
    expected = [
        moment
        for moment in range(start + 60_000, start + 200 * 60_000, 60_000)
        if to_datetime(moment).astimezone(zone).minute in minute.values
    ]
    found: list[Instant] = []
    fire_at = cron.next_after(start)
    while fire_at is not None and fire_at < start + 200 * 60_000:
        found.append(fire_at)
        fire_at = cron.next_after(fire_at)
    assert found == expected
