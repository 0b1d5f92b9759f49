"""Cron: the dialect, the edges of the clock, and what is refused."""

from __future__ import annotations

import time
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from rota.clock import DAY, HOUR, MINUTE, SECOND, Instant, from_datetime, to_datetime
from rota.errors import InvalidTrigger
from rota.triggers import Cron

NEW_YORK = "America/New_York"


def at(text: str, timezone: str = "UTC") -> Instant:
    return from_datetime(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(timezone)))


def fires(cron: Cron, after: str, n: int) -> list[str]:
    """The next n fires as local time with offset, after a local time."""
    found: list[str] = []
    moment: Instant | None = at(after, cron.timezone)
    for _ in range(n):
        moment = cron.next_after(moment)
        assert moment is not None
        found.append(to_datetime(moment).astimezone(ZoneInfo(cron.timezone)).isoformat())
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 9 * * *", "2026-01-01T09:00:00"),
        ("*/15 * * * *", "2026-01-01T00:15:00"),
        ("30 0 9 * * *", "2026-01-01T09:00:30"),
        ("* * * * * *", "2026-01-01T00:00:01"),
        ("0 9 * * MON-FRI", "2026-01-01T09:00:00"),
        ("0 9 * * mon", "2026-01-05T09:00:00"),
        ("0 9 * * 7", "2026-01-04T09:00:00"),
        ("0 9 * * 0", "2026-01-04T09:00:00"),
        ("0 9 * * 5-7", "2026-01-02T09:00:00"),
        ("0 0 1 jul *", "2026-07-01T00:00:00"),
        ("5/20 * * * *", "2026-01-01T00:05:00"),
        ("10-40/15 3 * * *", "2026-01-01T03:10:00"),
        ("0 0 L * *", "2026-01-31T00:00:00"),
        ("0 0 L 2 *", "2026-02-28T00:00:00"),
        ("0 0 LW 2 *", "2026-02-27T00:00:00"),
        ("0 0 * * 5L", "2026-01-30T00:00:00"),
        ("0 0 * * FRI#2", "2026-01-09T00:00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00:00"),
        ("0 0 * 2 MON#5", "2044-02-29T00:00:00"),
        ("0 0 31 * *", "2026-01-31T00:00:00"),
        ("@daily", "2026-01-02T00:00:00"),
        ("@HOURLY", "2026-01-01T01:00:00"),
        ("  0   9\t* * *\n", "2026-01-01T09:00:00"),
    ],
)
def test_the_dialect(expression: str, expected: str) -> None:
    assert Cron(expression).next_after(at("2026-01-01T00:00:00")) == at(expected)


def test_two_restricted_day_fields_mean_either() -> None:
    assert fires(Cron("0 0 13 * FRI"), "2026-02-01", 3) == [
        "2026-02-06T00:00:00+00:00",
        "2026-02-13T00:00:00+00:00",
        "2026-02-20T00:00:00+00:00",
    ]


def test_a_day_field_with_a_star_means_both() -> None:
    # */7 of the weekdays is Sunday: the 29th of February, if it is one.
    assert fires(Cron("0 0 29 2 */7"), "2026-02-01", 2) == ["2032-02-29T00:00:00+00:00", "2060-02-29T00:00:00+00:00"]


@pytest.mark.parametrize("expression", ["0 0 31 * *", "0 0 30 * *", "0 0 L * *"])
def test_month_ends(expression: str) -> None:
    days = [fire[5:10] for fire in fires(Cron(expression), "2026-01-01", 12)]
    if expression == "0 0 L * *":
        assert days[:4] == ["01-31", "02-28", "03-31", "04-30"]
    else:
        assert all(day.endswith(expression[4:6]) for day in days)
        assert "02-30" not in days


def test_a_fire_is_strictly_later_and_the_latest_is_not() -> None:
    cron, nine = Cron("0 9 * * *"), at("2026-01-01T09:00:00")
    assert cron.next_after(nine - 1) == nine
    assert cron.next_after(nine) == nine + DAY
    assert cron.next_after(nine + 1) == nine + DAY
    assert cron.latest_until(nine) == nine
    assert cron.latest_until(nine + 999) == nine
    assert cron.latest_until(nine - 1) == nine - DAY


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *"])
def test_a_daily_job_in_the_gap_runs_at_its_end(expression: str) -> None:
    assert fires(Cron(expression, NEW_YORK), "2026-03-07", 3) == [
        "2026-03-07T02:30:00-05:00",
        "2026-03-08T03:00:00-04:00",
        "2026-03-09T02:30:00-04:00",
    ]


@pytest.mark.parametrize("expression", ["30 1 * * *", "0 30 1 * * *"])
def test_a_daily_job_in_the_fold_runs_the_first_time(expression: str) -> None:
    assert fires(Cron(expression, NEW_YORK), "2026-10-31", 3) == [
        "2026-10-31T01:30:00-04:00",
        "2026-11-01T01:30:00-04:00",
        "2026-11-02T01:30:00-05:00",
    ]


def test_asked_inside_the_second_pass_the_whole_fold_is_behind() -> None:
    cron = Cron("*/10 1 * * *", NEW_YORK)
    second_pass = at("2026-11-01T06:05:00")  # 01:05 for the second time
    assert cron.next_after(second_pass) == at("2026-11-02T06:00:00")
    assert cron.latest_until(second_pass) == at("2026-11-01T05:50:00")


def test_several_walls_of_one_gap_are_one_fire() -> None:
    cron = Cron("0,20,40 2,3 * * *", NEW_YORK)
    assert fires(cron, "2026-03-08", 4) == [
        "2026-03-08T03:00:00-04:00",
        "2026-03-08T03:20:00-04:00",
        "2026-03-08T03:40:00-04:00",
        "2026-03-09T02:00:00-04:00",
    ]
    assert cron.count(at("2026-03-08", NEW_YORK), at("2026-03-09", NEW_YORK)) == 3


def test_lord_howe_shifts_by_half_an_hour() -> None:
    spring = fires(Cron("15 2 * * *", "Australia/Lord_Howe"), "2026-10-03", 3)
    assert spring == ["2026-10-03T02:15:00+10:30", "2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"]
    autumn = fires(Cron("45 1 * * *", "Australia/Lord_Howe"), "2026-04-04", 3)
    assert autumn == ["2026-04-04T01:45:00+11:00", "2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"]


def test_a_gap_at_midnight_stays_in_its_day_and_one_before_midnight_does_not() -> None:
    cairo = fires(Cron("30 0 * * *", "Africa/Cairo"), "2026-04-23T12:00:00", 2)
    assert cairo == ["2026-04-24T01:00:00+03:00", "2026-04-25T00:30:00+03:00"]
    nuuk = fires(Cron("30 23 * * *", "America/Nuuk"), "2026-03-28T12:00:00", 2)
    assert nuuk == ["2026-03-29T00:00:00-01:00", "2026-03-29T23:30:00-01:00"]


@pytest.mark.parametrize(("expression", "step"), [("*/15 * * * *", 15 * MINUTE), ("0 * * * *", HOUR)])
@pytest.mark.parametrize("day", ["2026-03-08", "2026-11-01"])
def test_a_job_of_every_hour_goes_by_elapsed_time(expression: str, step: int, day: str) -> None:
    cron, moment = Cron(expression, NEW_YORK), at(day, NEW_YORK)
    walk = [moment]
    for _ in range(40):
        following = cron.next_after(walk[-1])
        assert following is not None
        walk.append(following)
    assert {later - earlier for earlier, later in pairwise(walk)} == {step}
    assert cron.count(walk[0], walk[-1]) == 40


def test_how_the_hours_are_spelt_makes_no_difference() -> None:
    for day in ("2026-03-08", "2026-11-01"):
        assert fires(Cron("30 0-23 * * *", NEW_YORK), day, 6) == fires(Cron("30 * * * *", NEW_YORK), day, 6)


def test_a_count_is_exact_over_both_edges() -> None:
    year = (at("2026-01-01", NEW_YORK), at("2027-01-01", NEW_YORK))
    assert Cron("0 9 * * *", NEW_YORK).count(*year) == 365
    assert Cron("30 2 * * *", NEW_YORK).count(*year) == 365
    assert Cron("* * * * *", NEW_YORK).count(*year) == 365 * 1_440
    assert Cron("* * * * * *", NEW_YORK).count(*year) == 365 * 86_400
    # Sixty walls of the gap are one fire, and so is the wall of its end.
    assert Cron("* 2,3 * * *", NEW_YORK).count(*year) == 365 * 120 - 60
    assert Cron("0 9 * * *").count(5, 5) == 0
    assert Cron("0 9 * * *").count(5, 4) == 0


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("* * * * * * *", "7 fields"),
        ("0 0 1--100000000", "3 fields"),
        ("0 0 1--100000000 * *", "day-of-month '1--100000000'"),
        ("60 * * * *", "minute '60' .* outside 0 to 59"),
        ("60 * * * * *", "second '60'"),
        ("0 24 * * *", "hour '24' .* outside 0 to 23"),
        ("0 0 0 * *", "day-of-month '0'"),
        ("0 0 32 * *", "day-of-month '32'"),
        ("0 0 * 13 *", "month '13'"),
        ("0 0 * FOO *", "month 'FOO'"),
        ("0 0 * * 8", "day-of-week '8'"),
        ("0 0 * * MON#6", "day-of-week 'MON#6'"),
        ("0 0 * * MONL", "day-of-week 'MONL'"),
        ("0 0 15W * *", "day-of-month '15W'"),
        ("0 0 ? * *", r"day-of-month '\?'"),
        ("0 0 L/2 * *", "day-of-month 'L/2'"),
        ("0 0 5-5/2 * *", "range of one"),
        ("0 0 * * FRI-SUN", "backwards: count Sunday as 7"),
        ("0 17-9 * * *", "backwards"),
        ("*/0 * * * *", "step outside 1 to 60"),
        ("*/90 * * * *", "use an interval"),
        ("0 0 * * */8", "step outside 1 to 7"),
        ("1,,2 * * * *", "minute '' .* is empty"),
        ("-5 * * * *", "minute '-5'"),
        ("1.5 * * * *", "minute '1.5'"),
        ("\u0663 * * * *", "outside ASCII"),
        ("0\u00a09 * * *", "outside ASCII"),
        ("@reboot", "1 fields"),
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 2,4,6,9,11 *", "never fires"),
        ("0 0 30,31 2 */2", "never fires"),
        ("0 0 LW * */7", "never fires"),
        ("9" * 10_000, "longer than 512"),
        ("1," * 5_000 + " * * * *", "longer than 512"),
    ],
)
def test_what_is_refused_and_how(expression: str, complaint: str) -> None:
    with pytest.raises(InvalidTrigger, match=complaint) as refusal:
        Cron(expression)
    message = str(refusal.value)
    assert "Use e.g." in message
    assert len(message) < 400


@pytest.mark.parametrize("expression", ["0 0 29 2 */7", "0 * 29 2 */7", "0 0 * 2 MON#5", "0 0 29 2 *"])
def test_the_longest_silence_is_searched_in_time(expression: str) -> None:
    cron = Cron(expression, NEW_YORK)
    for year in (2026, 2073, 2096):
        march, february = at(f"{year}-03-01"), at(f"{year}-02-01")
        # Of several times the best: a pause of the collector or of the machine may fall into any of them.
        took: list[float] = []
        for _ in range(5):
            started = time.thread_time()
            later, earlier = cron.next_after(march), cron.latest_until(february)
            took.append(time.thread_time() - started)
            assert later is not None
            assert earlier is not None
        assert min(took) < 0.02, "two searches, 10 ms each"


def test_the_ends_of_time_have_answers() -> None:
    for cron in (Cron("0 9 * * *", NEW_YORK), Cron("* * * * *", NEW_YORK)):
        assert cron.next_after(10**18) is None
        assert cron.latest_until(-(10**18)) is None
        assert cron.next_after(-(10**18)) is not None
        assert cron.latest_until(10**18) is not None
        assert cron.count(-(10**18), 10**18) is None
        assert cron.next_after(at("8999-12-31T23:59:59")) is None
    assert Cron("0 0 1 1 *").next_after(at("8999-12-31T00:00:00")) == at("9000-01-01T00:00:00")


def test_a_bad_zone_is_refused_with_the_trigger() -> None:
    with pytest.raises(InvalidTrigger, match="Did you mean 'Europe/Berlin'"):
        Cron("0 9 * * *", "Europe/Berln")


def test_a_cron_job_is_a_value() -> None:
    assert Cron("0 9 * * *") == Cron("0 9 * * *", "UTC")
    assert len({Cron("0 9 * * *"), Cron("0 9 * * *", "UTC")}) == 1
    assert Cron("* * * * * *").next_after(SECOND) == 2 * SECOND
