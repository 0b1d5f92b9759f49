"""The series: which fire runs, and what becomes of the others."""

from __future__ import annotations

import pytest

from rota.clock import DAY, HOUR, MINUTE
from rota.errors import InvalidTrigger
from rota.triggers import (
    CATCH_UP_LIMIT,
    Claim,
    Cron,
    Interval,
    Once,
    Policy,
    Settle,
    Span,
    at_claim,
    at_resume,
    at_settle,
    count_fires,
    jittered,
)

HOURLY = Interval(HOUR, 0)
LATEST, ALL, SKIP = Policy(), Policy(misfire="all"), Policy(misfire="skip")


def test_a_span_counts_its_fires() -> None:
    assert count_fires(HOURLY, 0, 3 * HOUR) == Span(HOUR, 3 * HOUR, 3)
    assert count_fires(HOURLY, HOUR, 2 * HOUR - 1) is None
    assert count_fires(HOURLY, 0, 10**9 * HOUR) == Span(HOUR, 10**9 * HOUR, 10**9)
    assert count_fires(Once(5), 5, 9) is None
    assert count_fires(Once(5), 4, 9) == Span(5, 5, 1)


def test_a_long_cron_span_is_counted_by_arithmetic() -> None:
    every_second = Cron("* * * * * *")
    assert count_fires(every_second, 0, 30 * DAY) == Span(1_000, 30 * DAY, 30 * 86_400)


def test_a_span_too_long_to_count_says_so() -> None:
    assert count_fires(Cron("0 * * * *"), 0, 5_000 * DAY) == Span(HOUR, 5_000 * DAY, 1_000, exact=False)
    yearly = count_fires(Cron("@yearly"), 0, 5_000 * DAY)
    assert yearly is not None
    assert (yearly.count, yearly.exact) == (13, True)


@pytest.mark.parametrize("policy", [LATEST, ALL, SKIP])
def test_a_fire_on_time_just_runs(policy: Policy) -> None:
    assert at_claim(HOURLY, policy, HOUR, HOUR + 5) == Claim(HOUR, None, None, 2 * HOUR)
    assert at_claim(Once(HOUR), policy, HOUR, HOUR + 5) == Claim(HOUR, None, None, None)
    assert at_claim(HOURLY, policy, HOUR, HOUR - 5) == Claim(HOUR, None, None, 2 * HOUR), "claimed early"


def test_latest_runs_the_last_and_coalesces_the_rest() -> None:
    assert at_claim(HOURLY, LATEST, HOUR, 4 * HOUR + 5) == Claim(
        4 * HOUR, Span(HOUR, 3 * HOUR, 3), None, next_fire=5 * HOUR
    )


def test_all_runs_the_oldest_first() -> None:
    assert at_claim(HOURLY, ALL, HOUR, 4 * HOUR + 5) == Claim(HOUR, None, None, 2 * HOUR)


def test_all_catches_up_on_24_and_no_more() -> None:
    assert CATCH_UP_LIMIT == 24
    assert at_claim(HOURLY, ALL, HOUR, 24 * HOUR) == Claim(HOUR, None, None, 2 * HOUR)
    assert at_claim(HOURLY, ALL, HOUR, 30 * HOUR) == Claim(7 * HOUR, Span(HOUR, 6 * HOUR, 6), None, 8 * HOUR)


def test_skip_runs_what_is_still_current_and_skips_the_rest() -> None:
    assert at_claim(HOURLY, SKIP, HOUR, 4 * HOUR + 5) == Claim(4 * HOUR, None, Span(HOUR, 3 * HOUR, 3), 5 * HOUR)


@pytest.mark.parametrize("misfire", ["latest", "all", "skip"])
def test_past_the_grace_nothing_runs(misfire: str) -> None:
    policy = Policy(misfire=misfire, grace_ms=MINUTE)  # pyright: ignore[reportArgumentType] - one of the three
    now = 4 * HOUR + MINUTE + 1
    assert at_claim(HOURLY, policy, HOUR, now) == Claim(None, None, Span(HOUR, 4 * HOUR, 4), 5 * HOUR)
    assert at_claim(HOURLY, policy, HOUR, now - 1).fire_at == 4 * HOUR


def test_the_grace_splits_the_missed_fires() -> None:
    now = 6 * HOUR
    latest = at_claim(HOURLY, Policy(grace_ms=2 * HOUR), HOUR, now)
    assert latest == Claim(6 * HOUR, Span(4 * HOUR, 5 * HOUR, 2), Span(HOUR, 3 * HOUR, 3), 7 * HOUR)
    every = at_claim(HOURLY, Policy(misfire="all", grace_ms=2 * HOUR), HOUR, now)
    assert every == Claim(4 * HOUR, None, Span(HOUR, 3 * HOUR, 3), 5 * HOUR)
    skip = at_claim(HOURLY, Policy(misfire="skip", grace_ms=2 * HOUR), HOUR, now)
    assert skip == Claim(6 * HOUR, None, Span(HOUR, 5 * HOUR, 5), 7 * HOUR)


def test_jitter_does_not_eat_the_grace() -> None:
    policy = Policy(grace_ms=MINUTE, jitter_ms=10 * MINUTE)
    assert at_claim(HOURLY, policy, HOUR, HOUR + 10 * MINUTE).fire_at == HOUR


def test_a_late_once_runs_unless_its_grace_is_over() -> None:
    assert at_claim(Once(5), LATEST, 5, DAY) == Claim(5, None, None, None)
    assert at_claim(Once(5), Policy(grace_ms=MINUTE), 5, DAY) == Claim(None, None, Span(5, 5, 1), None)


def test_a_fire_of_an_older_trigger_still_counts() -> None:
    odd = HOUR + 1_234
    assert at_claim(HOURLY, LATEST, odd, odd) == Claim(odd, None, None, 2 * HOUR)
    assert at_claim(HOURLY, LATEST, odd, 3 * HOUR) == Claim(3 * HOUR, Span(odd, 2 * HOUR, 2), None, 4 * HOUR)


def test_a_run_without_overlap_goes_on_with_the_series() -> None:
    assert at_settle(HOURLY, LATEST, HOUR, HOUR + 5, HOUR + MINUTE) == Settle(2 * HOUR, None)
    assert at_settle(Once(5), LATEST, 5, 6, 7) == Settle(None, None)


def test_fires_during_a_run_are_skipped() -> None:
    settled = at_settle(HOURLY, LATEST, HOUR, HOUR + 5, 3 * HOUR + 5)
    assert settled == Settle(4 * HOUR, Span(2 * HOUR, 3 * HOUR, 2))


def test_or_one_of_them_is_queued() -> None:
    queue = Policy(overlap="queue")
    assert at_settle(HOURLY, queue, HOUR, HOUR + 5, 3 * HOUR + 5) == Settle(3 * HOUR, Span(2 * HOUR, 2 * HOUR, 1))
    assert at_settle(HOURLY, queue, HOUR, HOUR + 5, 2 * HOUR) == Settle(2 * HOUR, None)


def test_what_all_owes_comes_before_any_overlap() -> None:
    assert at_settle(HOURLY, ALL, HOUR, 3 * HOUR + 5, 9 * HOUR) == Settle(2 * HOUR, None)
    assert at_settle(HOURLY, ALL, 3 * HOUR, 3 * HOUR + 5, 5 * HOUR) == Settle(6 * HOUR, Span(4 * HOUR, 5 * HOUR, 2))


def test_a_clock_that_went_back_repeats_nothing() -> None:
    assert at_settle(HOURLY, LATEST, 3 * HOUR, 3 * HOUR + 5, HOUR) == Settle(4 * HOUR, None)
    assert at_settle(HOURLY, LATEST, 3 * HOUR, 2 * HOUR, HOUR) == Settle(4 * HOUR, None)


@pytest.mark.parametrize("policy", [LATEST, ALL, SKIP])
def test_resume_runs_nothing_of_the_past(policy: Policy) -> None:
    assert at_resume(HOURLY, policy, HOUR, 3 * HOUR) == Claim(None, None, Span(HOUR, 3 * HOUR, 3), 4 * HOUR)
    assert at_resume(HOURLY, policy, 9 * HOUR, 3 * HOUR) == Claim(None, None, None, 9 * HOUR)


def test_jitter_is_the_same_for_a_key_and_differs_between_keys() -> None:
    policy = Policy(jitter_ms=10 * MINUTE)
    due = {key: jittered(HOUR, policy, key, 2 * HOUR) for key in ("u1", "u2", "u3", "\ud800")}
    assert due == {key: jittered(HOUR, policy, key, 2 * HOUR) for key in due}
    assert len(set(due.values())) == len(due)
    assert jittered(HOUR, policy, "u1", None) == due["u1"]
    assert jittered(5 * HOUR, policy, "u1", 6 * HOUR) - 5 * HOUR == due["u1"] - HOUR
    # The value itself is a promise: instances of every version agree on it.
    assert due["u1"] - HOUR == 343_591


def test_jitter_stays_below_its_width_and_the_next_fire() -> None:
    for number in range(200):
        assert HOUR <= jittered(HOUR, Policy(jitter_ms=DAY), f"u{number}", 2 * HOUR) < 2 * HOUR
        assert HOUR <= jittered(HOUR, Policy(jitter_ms=7), f"u{number}", None) < HOUR + 7
    assert jittered(HOUR, Policy(), "u1", 2 * HOUR) == HOUR
    assert jittered(HOUR, Policy(jitter_ms=5), "u1", HOUR) == HOUR


def test_an_impossible_policy_is_refused() -> None:
    for fields in ({"misfire": "never"}, {"overlap": "maybe"}, {"grace_ms": -1}, {"jitter_ms": -1}):
        with pytest.raises(InvalidTrigger, match="Use"):
            Policy(**fields)  # pyright: ignore[reportArgumentType] - wrong on purpose
