"""One-time triggers: ISO 8601, the wall of a zone, and the past."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rota.clock import Instant, from_datetime
from rota.errors import InvalidTrigger
from rota.triggers import Once, parse_trigger


def utc(text: str) -> Instant:
    return from_datetime(datetime.fromisoformat(text).replace(tzinfo=UTC))


NOW = utc("2026-01-01T00:00:00")


def test_it_fires_once() -> None:
    once = Once(1_000)
    assert (once.next_after(999), once.next_after(1_000)) == (1_000, None)
    assert (once.latest_until(999), once.latest_until(1_000)) == (None, 1_000)
    assert [once.count(after, until) for after, until in ((0, 999), (0, 1_000), (999, 2_000), (1_000, 2_000))] == [
        *(0, 1, 1, 0)
    ]


@pytest.mark.parametrize(
    ("value", "timezone", "expected"),
    [
        ("2026-03-08T09:00:00Z", "America/New_York", "2026-03-08T09:00:00"),
        ("2026-03-08T09:00:00+02:00", "America/New_York", "2026-03-08T07:00:00"),
        ("2026-07-01T09:00:00", "America/New_York", "2026-07-01T13:00:00"),
        ("2026-07-01 09:00", "UTC", "2026-07-01T09:00:00"),
        ("2026-07-01", "Europe/Berlin", "2026-06-30T22:00:00"),
        ("2026-07-01T09:00:00.250999Z", "UTC", "2026-07-01T09:00:00.250"),
        # a gap: to its end; a fold: the first
        ("2026-03-08T02:30:00", "America/New_York", "2026-03-08T07:00:00"),
        ("2026-11-01T01:30:00", "America/New_York", "2026-11-01T05:30:00"),
        ("2026-10-04T02:15:00", "Australia/Lord_Howe", "2026-10-03T15:30:00"),
    ],
)
def test_the_time_is_read_in_its_zone(value: str, timezone: str, expected: str) -> None:
    assert parse_trigger("once", value, timezone=timezone, now=NOW) == Once(utc(expected))


@pytest.mark.parametrize(
    "value",
    [
        *("", "tomorrow", "2026-13-01", "2026-02-30T00:00:00", "09:00", "1772960400000", "2026-03-08T25:00:00"),
        *("9999-01-01T00:00:00", "0001-01-01T00:00:00", "\u0662026-03-08T09:00:00", "2" * 10_000, " " * 10_000),
        "2026-03-08T09:00:00+99:00",
    ],
)
def test_anything_else_is_refused_with_an_example(value: str) -> None:
    with pytest.raises(InvalidTrigger, match=r"Use ISO 8601, e\.g\.") as refusal:
        parse_trigger("once", value, now=0, allow_past=True)
    assert len(str(refusal.value)) < 300


def test_the_past_is_refused_unless_asked_for() -> None:
    with pytest.raises(InvalidTrigger, match="not in the future"):
        parse_trigger("once", "2025-12-31T23:59:59", now=NOW)
    with pytest.raises(InvalidTrigger, match="not in the future"):
        parse_trigger("once", "2026-01-01T00:00:00", now=NOW)
    past = parse_trigger("once", "2025-12-31T23:59:59", now=NOW, allow_past=True)
    assert past == Once(NOW - 1_000)


def test_a_bad_zone_is_refused() -> None:
    with pytest.raises(InvalidTrigger, match="IST-2"):
        parse_trigger("once", "2026-03-08T09:00:00", timezone="IST-2", now=NOW)
