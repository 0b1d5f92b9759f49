"""Intervals: a grid from the anchor, and strict values."""

from __future__ import annotations

import pytest

from rota.clock import DAY, HOUR, MINUTE
from rota.errors import InvalidTrigger
from rota.triggers import LONGEST_INTERVAL, SHORTEST_INTERVAL, Interval, parse_trigger

ANCHOR = 1_000_003


def test_the_grid_starts_at_the_anchor() -> None:
    interval = Interval(MINUTE, ANCHOR)
    assert interval.next_after(ANCHOR - 1) == ANCHOR
    assert interval.next_after(0) == ANCHOR
    assert interval.next_after(ANCHOR) == ANCHOR + MINUTE
    assert interval.next_after(ANCHOR + MINUTE - 1) == ANCHOR + MINUTE
    assert interval.latest_until(ANCHOR - 1) is None
    assert interval.latest_until(ANCHOR) == ANCHOR
    assert interval.latest_until(ANCHOR + MINUTE - 1) == ANCHOR


def test_a_count_needs_no_walk() -> None:
    interval = Interval(1_000, 0)
    assert interval.count(0, 10**15) == 10**12
    assert interval.count(-5_000, 0) == 1
    assert interval.count(-5_000, -1) == 0
    assert interval.count(10, 5) == 0


@pytest.mark.parametrize(
    ("value", "every_ms"),
    [
        ("60000", MINUTE),
        (60_000, MINUTE),
        (" 60000 ", MINUTE),
        ("30m", 30 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("1.5h", 90 * MINUTE),
        ("2D", 2 * DAY),
        ("1000", SHORTEST_INTERVAL),
        (str(LONGEST_INTERVAL), LONGEST_INTERVAL),
    ],
)
def test_milliseconds_and_durations_are_taken(value: str | int, every_ms: int) -> None:
    assert parse_trigger("interval", value, now=ANCHOR) == Interval(every_ms, ANCHOR)


@pytest.mark.parametrize(
    "value",
    [
        *("10abc", "1e9", "-5", "", " ", "+60000", "60_000", "0x10", "1.5", "60000.0", "m", "30 m", "30m abc", "30M!"),
        *("\u0663\u0663\u0663\u0663", "9" * 5_000, "1h" * 5_000, "NaN", "inf", "30min", "PT30M"),
    ],
)
def test_anything_else_is_refused_with_an_example(value: str) -> None:
    with pytest.raises(InvalidTrigger, match="'30m'") as refusal:
        parse_trigger("interval", value, now=0)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("value", [0, 1, 999, -5, "999", "0", "5ms", LONGEST_INTERVAL + 1, "99999w", 10**15, 10**400])
def test_the_limits_are_named(value: str | int) -> None:
    with pytest.raises(InvalidTrigger, match="10 years"):
        parse_trigger("interval", value, now=0)


@pytest.mark.parametrize("value", [True, 1.5, None, [1]])
def test_json_of_the_wrong_type_is_refused(value: object) -> None:
    with pytest.raises(InvalidTrigger, match="neither milliseconds nor a duration"):
        parse_trigger("interval", value, now=0)  # pyright: ignore[reportArgumentType] - what JSON may hold


def test_lateness_never_shifts_the_grid() -> None:
    interval = Interval(HOUR, ANCHOR)
    late = ANCHOR + 5 * HOUR + 1_234
    assert interval.next_after(late) == ANCHOR + 6 * HOUR
