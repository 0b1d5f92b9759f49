"""Zones: names that are taken, names that are refused, and the arithmetic of gaps and folds."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rota.clock import from_datetime
from rota.errors import InvalidTrigger
from rota.triggers.zone import (
    default_timezone,
    edges_between,
    fold_at,
    gap_at,
    highest_wall,
    instant_of,
    instant_of_wall,
    zone,
)


def seconds(text: str) -> int:
    """Seconds since the epoch of a time in UTC, or of a wall written the same way."""
    return from_datetime(datetime.fromisoformat(text).replace(tzinfo=UTC)) // 1_000


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia", "Etc/GMT+3", "EST5EDT"])
def test_an_iana_name_is_taken(name: str) -> None:
    assert zone(name).key == name
    assert zone(name) is zone(name)


@pytest.mark.parametrize(
    "name",
    [
        *("IST-2", "EST5EDT,M3.2.0,M11.1.0", "", " ", "localtime", "Factory", "posix/UTC", "right/UTC", "GMT+25"),
        *("../../etc/passwd", "/etc/localtime", "Europe/../UTC", "Europe//Berlin", "Europe", "UTC\0", "UTC\n"),
        *("x" * 10_000, "\u0415urope/Berlin", "tzdata.zi", "Europe/Berlin/x/y"),
    ],
)
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(InvalidTrigger, match="is no IANA zone") as refusal:
        zone(name)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("America/New York", "America/New_York"),
        ("utc", "UTC"),
    ],
)
def test_a_misspelt_zone_gets_a_suggestion(name: str, meant: str) -> None:
    with pytest.raises(InvalidTrigger, match=f"Did you mean '{meant}'"):
        zone(name)


def test_the_default_zone_follows_its_order() -> None:
    every = {"ROTA_TIMEZONE": "Asia/Tokyo", "TIMEZONE": "Asia/Kolkata", "TZ": "Europe/Rome"}
    assert default_timezone(every, "Europe/Berlin") == "Europe/Berlin"
    assert default_timezone(every, None) == "Asia/Tokyo"
    assert default_timezone({"TIMEZONE": "Asia/Kolkata", "TZ": "Europe/Rome"}, None) == "Asia/Kolkata"
    assert default_timezone({"TIMEZONE": "", "TZ": ":Europe/Rome"}, "") == "Europe/Rome"
    assert default_timezone({}, None) == "UTC"


@pytest.mark.parametrize("foreign", ["IST-2", "/etc/localtime", ":/etc/localtime", "nonsense", "localtime"])
def test_a_foreign_tz_is_passed_over(foreign: str) -> None:
    assert default_timezone({"TZ": foreign}, None) == "UTC"
    assert default_timezone({"TIMEZONE": foreign, "TZ": "Asia/Tokyo"}, None) == "Asia/Tokyo"


def test_a_zone_written_for_rota_must_be_right() -> None:
    with pytest.raises(InvalidTrigger, match="Did you mean 'Asia/Tokyo'"):
        default_timezone({"ROTA_TIMEZONE": "Asia/Tokio"}, None)
    with pytest.raises(InvalidTrigger, match="Mars/Olympus"):
        default_timezone({"TZ": "Asia/Tokyo"}, "Mars/Olympus")


def test_a_gap_ends_where_the_clock_goes_on() -> None:
    tz = zone("America/New_York")
    gap = gap_at(tz, seconds("2026-03-08T02:30:00"))
    assert gap is not None
    assert (gap.at, gap.before, gap.after) == (seconds("2026-03-08T07:00:00"), -18_000, -14_400)
    assert instant_of_wall(tz, seconds("2026-03-08T02:30:00")) == gap.at
    assert gap_at(tz, seconds("2026-03-08T01:59:59")) is None
    assert gap_at(tz, seconds("2026-03-08T03:00:00")) is None


def test_a_fold_is_seen_in_both_passes() -> None:
    tz = zone("Australia/Lord_Howe")
    first, second = seconds("2026-04-04T14:45:00"), seconds("2026-04-04T15:15:00")
    for moment in (first, second):
        fold = fold_at(tz, moment)
        assert fold is not None
        assert (fold.at, fold.before - fold.after) == (seconds("2026-04-04T15:00:00"), 1_800)
    assert instant_of_wall(tz, seconds("2026-04-05T01:45:00")) == first
    assert highest_wall(tz, first) == seconds("2026-04-05T01:45:00")
    assert highest_wall(tz, second) == seconds("2026-04-05T01:59:59")


def test_a_day_that_never_was_ends_at_the_next() -> None:
    assert instant_of_wall(zone("Pacific/Apia"), seconds("2011-12-30T09:00:00")) == seconds("2011-12-30T10:00:00")


def test_edges_are_found_in_order_and_to_the_second() -> None:
    edges = list(edges_between(zone("Europe/Berlin"), seconds("2026-01-01"), seconds("2027-01-01")))
    assert [edge.at for edge in edges] == [seconds("2026-03-29T01:00:00"), seconds("2026-10-25T01:00:00")]
    assert not list(edges_between(zone("UTC"), 0, 10**8))


def test_milliseconds_of_a_wall_are_kept() -> None:
    moment = datetime.fromisoformat("2026-07-01T09:00:00.250")
    assert instant_of(zone("Europe/Berlin"), moment) == seconds("2026-07-01T07:00:00") * 1_000 + 250
    in_gap = datetime.fromisoformat("2026-03-29T02:30:00.250")
    assert instant_of(zone("Europe/Berlin"), in_gap) == seconds("2026-03-29T01:00:00") * 1_000
