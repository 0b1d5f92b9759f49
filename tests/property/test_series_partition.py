"""The law of the series: every fire ran, or lies in exactly one span, whatever the delays and policies."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.fires import fires_between

from rota.clock import DAY, HOUR, MINUTE, Instant, Millis
from rota.triggers import AnyTrigger, Cron, Interval, Once, Policy, Span, at_claim, at_resume, at_settle, jittered

START: Instant = 1_772_900_000_000  # 2026-03-07: the first change of clocks in New York is a day away

triggers: st.SearchStrategy[AnyTrigger] = st.one_of(
    st.builds(Interval, st.integers(MINUTE, 6 * HOUR), st.just(START)),
    st.sampled_from(
        [
            Cron("*/15 * * * *", "America/New_York"),
            Cron("30 2 * * *", "America/New_York"),
            Cron("*/20 1-3 * * *", "America/New_York"),
            Cron("0 9-17 * * MON-FRI", "Europe/Berlin"),
        ]
    ),
    st.builds(Once, st.integers(START + 1, START + DAY)),
)
policies = st.builds(
    Policy,
    misfire=st.sampled_from(["latest", "all", "skip"]),
    grace_ms=st.none() | st.integers(0, 12 * HOUR),
    overlap=st.sampled_from(["skip", "queue"]),
    jitter_ms=st.sampled_from([0, 1, MINUTE, DAY]),
)
delays = st.one_of(st.integers(0, 2 * MINUTE), st.integers(0, 3 * HOUR), st.integers(0, 3 * DAY))


class Step(NamedTuple):
    wait: Millis
    run: Millis
    is_paused: bool


steps = st.lists(st.builds(Step, delays, delays, st.integers(0, 5).map(lambda die: die == 0)), min_size=1, max_size=25)


class Ledger:
    """What became of every fire, so far."""

    def __init__(self, trigger: AnyTrigger) -> None:
        self.trigger = trigger
        self.accounted: list[Instant] = []

    def ran(self, fire_at: Instant) -> None:
        self.accounted.append(fire_at)

    def span(self, span: Span | None) -> None:
        if span is None:
            return
        fires = fires_between(self.trigger, span.first_at - 1, span.last_at)
        assert (fires[0], fires[-1]) == (span.first_at, span.last_at), "both ends are fires"
        assert span.exact
        assert span.count == len(fires)
        self.accounted.extend(fires)


def one_step(
    ledger: Ledger, policy: Policy, fire_at: Instant, now: Instant, step: Step
) -> tuple[Instant | None, Instant]:
    """Wait for the fire and more, then resume or claim, run and settle. Gives the next fire and the time."""
    trigger = ledger.trigger
    now = max(now, jittered(fire_at, policy, "key", trigger.next_after(fire_at))) + step.wait
    if step.is_paused:
        resumed = at_resume(trigger, policy, fire_at, now)
        assert resumed.fire_at is None
        ledger.span(resumed.skipped)
        return resumed.next_fire, now
    claim = at_claim(trigger, policy, fire_at, now)
    ledger.span(claim.skipped)
    ledger.span(claim.coalesced)
    if claim.fire_at is None:
        return claim.next_fire, now
    check_claim(policy, claim.fire_at, now)
    ledger.ran(claim.fire_at)
    settled = at_settle(trigger, policy, claim.fire_at, now, now + step.run)
    ledger.span(settled.overlapped)
    return settled.next_fire, now + step.run


def check_claim(policy: Policy, fire_at: Instant, now: Instant) -> None:
    if policy.grace_ms is not None:
        assert now - fire_at <= policy.grace_ms + policy.jitter_ms, "nothing runs past its grace"


@settings(max_examples=600)
@given(triggers, policies, steps)
def test_every_fire_is_accounted_for_exactly_once(trigger: AnyTrigger, policy: Policy, walk: list[Step]) -> None:
    ledger, now = Ledger(trigger), START
    fire_at = trigger.next_after(START)
    for step in walk:
        if fire_at is None:
            break
        fire_at, now = one_step(ledger, policy, fire_at, now, step)
    # What is accounted for is everything before the fire that is next.
    settled_until = max(ledger.accounted, default=START) if fire_at is None else fire_at - 1
    assert ledger.accounted == fires_between(trigger, START, settled_until), "in order, none missing, none twice"


@settings(max_examples=200)
@given(triggers, policies, st.integers(START, START + 30 * DAY), st.text(max_size=8))
def test_a_due_time_lies_between_its_fire_and_the_next(
    trigger: AnyTrigger, policy: Policy, at: Instant, key: str
) -> None:
    fire_at = trigger.next_after(at)
    if fire_at is None:
        return
    following = trigger.next_after(fire_at)
    due_at = jittered(fire_at, policy, key, following)
    assert fire_at <= due_at <= fire_at + policy.jitter_ms
    assert following is None or due_at < following
