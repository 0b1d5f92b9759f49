"""Triggers in words."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from rota.clock import Instant, from_datetime
from rota.errors import InvalidTrigger
from rota.triggers import AnyTrigger, Cron, Interval, Once, Policy, explain

NEW_YORK = "America/New_York"


def at(text: str, timezone: str = NEW_YORK) -> Instant:
    return from_datetime(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(timezone)))


def test_a_gap_gets_one_note() -> None:
    explanation = explain(Cron("30 2 * * *", NEW_YORK), NEW_YORK, 3, at("2026-03-07"))
    assert explanation.words == "at 02:30, every day"
    assert explanation.fires == (
        "2026-03-07T02:30:00-05:00",
        "2026-03-08T03:00:00-04:00",
        "2026-03-09T02:30:00-04:00",
    )
    assert explanation.notes == (f"2026-03-08: 02:30 does not exist in {NEW_YORK}, runs at 03:00",)


def test_a_fold_gets_one_note() -> None:
    explanation = explain(Cron("30 1 * * *", NEW_YORK), NEW_YORK, 3, at("2026-10-31"))
    assert explanation.notes == (f"2026-11-01: 01:30 happens twice in {NEW_YORK}, runs the first time only",)


def test_several_walls_of_a_gap_share_a_note() -> None:
    explanation = explain(Cron("*/15 2 * * *", NEW_YORK), "UTC", 1, at("2026-03-08"))
    assert explanation.fires == ("2026-03-08T07:00:00+00:00",)
    assert explanation.notes == (f"2026-03-08: 02:00 to 02:45 do not exist in {NEW_YORK}, runs at 03:00",)


def test_a_note_names_the_day_if_the_fire_left_it() -> None:
    explanation = explain(Cron("30 30 23 * * *", "America/Nuuk"), "UTC", 1, at("2026-03-28T12:00:00", "UTC"))
    assert explanation.notes == ("2026-03-28: 23:30:30 does not exist in America/Nuuk, runs at 2026-03-29 00:00",)


@pytest.mark.parametrize("expression", ["*/15 * * * *", "0 9 * * *"])
def test_what_the_edge_does_not_touch_gets_no_note(expression: str) -> None:
    assert explain(Cron(expression, NEW_YORK), NEW_YORK, 10, at("2026-03-08")).notes == ()


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (Cron("0 9 * * 1-5"), "at 09:00, Monday to Friday"),
        (Cron("0 9 * * MON,TUE,WED,THU,FRI"), "at 09:00, Monday to Friday"),
        (Cron("0 9,17 * * *"), "at 09:00 and 17:00, every day"),
        (Cron("30 9 * * 0,6"), "at 09:30, Saturday and Sunday"),
        (Cron("0 9 * * 1,3,5"), "at 09:00, Monday, Wednesday and Friday"),
        (Cron("* * * * *"), "every minute"),
        (Cron("*/15 * * * *"), "every 15 minutes"),
        (Cron("0,30 * * * *"), "every 30 minutes"),
        (Cron("0 * * * *"), "every hour"),
        (Cron("0 0-23 * * *"), "every hour"),
        (Cron("5 * * * *"), "at minute 5 of every hour"),
        (Cron("5,20 * * * 1"), "at minutes 5 and 20 of every hour, Monday"),
        (Cron("0 */2 * * *"), "every 2 hours"),
        (Cron("7 */3 * * *"), "at minute 7 of every 3rd hour"),
        (Cron("0 9-17 * * 1-5"), "every hour from 09:00 to 17:00, Monday to Friday"),
        (Cron("*/15 9-17 * * *"), "every 15 minutes from 09:00 to 17:45"),
        (Cron("0 0 1 * *"), "at 00:00, on day 1 of the month"),
        (Cron("0 0 1,15 1,7 *"), "at 00:00, on days 1 and 15 of the month, in January and July"),
        (Cron("0 0 * 6-8 *"), "at 00:00, every day, in June to August"),
        (Cron("0 0 L * *"), "at 00:00, on the last day of the month"),
        (Cron("0 0 LW,1 * *"), "at 00:00, on day 1 of the month and on the last weekday of the month"),
        (Cron("0 9 * * 1#1"), "at 09:00, on the first Monday of the month"),
        (Cron("0 9 * * 5L"), "at 09:00, on the last Friday of the month"),
        (Cron("0 0 13 * 5"), "at 00:00, on day 13 of the month or on Friday"),
        (Cron("0 0 29 2 */7"), "at 00:00, on day 29 of the month if it is Sunday, in February"),
        (Cron("* * * * * *"), "every second"),
        (Cron("*/10 * * * * *"), "every 10 seconds"),
        (Cron("5 * * * * *"), "at second 5 of every minute"),
        (Cron("15 30 2 * * *"), "at 02:30:15, every day"),
        (Cron("*/10 */5 9 * * *"), "every 10 seconds, every 5 minutes of hour 9"),
        (Cron("1,2,5 1,5,9 * * *"), "at minutes 1, 2 and 5 of hours 1, 5 and 9"),
        (Cron("@weekly"), "at 00:00, Sunday"),
        (Interval(60_000, 0), "every minute"),
        (Interval(5_400_000, 0), "every 1 hour 30 minutes"),
        (Interval(172_800_000, 0), "every 2 days"),
        (Interval(1_500, 0), "every 1 second 500 milliseconds"),
        (Once(1_000), "once, at 1970-01-01T00:00:01+00:00"),
    ],
)
def test_the_words(trigger: AnyTrigger, words: str) -> None:
    assert explain(trigger, "UTC", 0, 0).words == words


def test_fires_end_with_the_series_and_keep_milliseconds() -> None:
    assert explain(Once(1_250), "UTC", 5, 0).fires == ("1970-01-01T00:00:01.250+00:00",)
    assert explain(Interval(60_000, 0), "Asia/Kolkata", 1, 0).fires == ("1970-01-01T05:31:00+05:30",)


def test_jitter_gets_a_note() -> None:
    policy = Policy(jitter_ms=30_000)
    with_key = explain(Interval(60_000, 0), "UTC", 2, 0, policy=policy, key="u1")
    assert len(with_key.notes) == 1
    assert with_key.notes[0].startswith("jitter: each run of 'u1' starts ")
    assert explain(Interval(60_000, 0), "UTC", 2, 0, policy=policy).notes == (
        "jitter: each run starts up to 30s after its fire",
    )
    assert explain(Interval(60_000, 0), "UTC", 2, 0, policy=Policy(), key="u1").notes == ()


@pytest.mark.parametrize("n", [-1, 1_001])
def test_the_number_of_fires_is_bounded(n: int) -> None:
    with pytest.raises(InvalidTrigger, match="0 to 1000"):
        explain(Interval(60_000, 0), "UTC", n, 0)
