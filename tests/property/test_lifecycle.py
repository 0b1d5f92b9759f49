"""The pure lifecycle under random events: what must hold of every record, whatever happened to it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.clock import MINUTE, SECOND, Instant
from rota.core import lifecycle
from rota.core.lifecycle import MAX_CRASHES, MAX_SNOOZES, Step, goes_to
from rota.core.outcome import Answer
from rota.core.task import (
    NO_PAST,
    Change,
    Entry,
    Lease,
    NewTask,
    Renewal,
    Settlement,
    Task,
    TaskStatus,
    Transition,
    Want,
)
from rota.core.task_type import TaskType
from rota.testing.conformance.table import is_possible
from rota.testing.conformance.world import SETTLING, policy
from rota.triggers import Cron, Interval, Once, encode_trigger

START = 20_000 * 86_400_000
TYPE = TaskType(name="work", interval_ms=MINUTE, max_retries=2, mode="debounce")
TRIGGERS = [
    None,
    encode_trigger(Interval(MINUTE, START)),
    encode_trigger(Cron("*/2 * * * *")),
    encode_trigger(Once(START + 90 * SECOND)),
]
POLICIES = [None, policy(misfire="all"), policy(overlap="queue", jitter_ms=20 * SECOND), policy(grace_ms=30 * SECOND)]

moves = st.tuples(
    st.sampled_from(list(Transition)),
    st.sampled_from([0, 1, 7 * SECOND, 45 * SECOND, 3 * MINUTE]),
    st.sampled_from(TRIGGERS),
    st.sampled_from(POLICIES),
    st.sampled_from([None, 1, 3]),
)


class Life:
    """One identity, and the tokens it was given."""

    def __init__(self) -> None:
        self.entry = Entry(None, NO_PAST)
        self.now: Instant = START
        self.token = 0

    def step(
        self, transition: Transition, trigger: str | None, series_policy: str | None, max_runs: int | None
    ) -> Step:
        entry, now, task = self.entry, self.now, self.entry.task
        match transition:
            case Transition.SCHEDULE:
                new = NewTask(task_type="work", key="k", trigger=trigger, policy=series_policy, max_runs=max_runs)
                return lifecycle.schedule(entry, new, TYPE, now)
            case Transition.UPDATE:
                change = Change(task_type="work", key="k", max_runs=max_runs)
                if trigger is not None:
                    change = Change(task_type="work", key="k", trigger=trigger, policy=series_policy)
                return lifecycle.update(entry, change, now)
            case Transition.TOUCH:
                return lifecycle.touch(entry, TYPE, now)
            case Transition.CLAIM:
                self.token += 1
                return lifecycle.claim(entry, Lease(self.token, now + 10 * SECOND, "i", "c"), TYPE, now)
            case Transition.RENEW:
                return lifecycle.renew(entry, Renewal("work", "k", self.token), now + 10 * SECOND)
            case Transition.REAP:
                return lifecycle.reap(entry, TYPE, now)
            case _ if transition in SETTLING:
                token = self.token if task is None else task.token
                settled = Settlement(task_type="work", key="k", token=token, transition=transition, chance=0.3)
                return lifecycle.settle(entry, settled, TYPE, now)
            case _:
                return self._apply(transition)

    def _apply(self, transition: Transition) -> Step:
        entry, now = self.entry, self.now
        match transition:
            case Transition.PAUSE:
                return lifecycle.pause(entry, now)
            case Transition.RESUME:
                return lifecycle.resume(entry, TYPE, now)
            case Transition.CANCEL:
                return lifecycle.cancel(entry, TYPE, now)
            case Transition.RUN_NOW:
                return lifecycle.run_now(entry, now)
            case Transition.REDRIVE:
                return lifecycle.redrive(entry, now)
            case Transition.END:
                return lifecycle.end(entry, TYPE, now)
            case _:
                return lifecycle.purge(entry)


def check(task: Task) -> None:
    """What holds of every record."""
    running = task.status is TaskStatus.RUNNING
    assert is_possible(task.status, task.want, task.dirty)
    assert running == (task.token > 0) == (task.lease_until is not None) == (task.claim_id is not None)
    assert (task.finished_at is not None) == (task.purge_at is not None) == (not task.status.is_live)
    assert task.crashes <= MAX_CRASHES
    assert task.snoozes <= MAX_SNOOZES
    assert task.errors <= TYPE.max_retries + 1
    assert not task.parked
    if task.is_recurring and task.status is TaskStatus.PENDING and not task.manual:
        # It waits for a fire, or tries one again: a claim always finds which.
        assert task.next_fire is not None or task.fire_at is not None
    if task.status.is_live and task.want is Want.NONE and task.is_recurring:
        assert task.max_runs is None or task.fires_run <= max(task.max_runs, 3)


@settings(max_examples=400)
@given(st.lists(moves, max_size=40))
def test_no_sequence_of_events_leads_astray(
    sequence: list[tuple[Transition, int, str | None, str | None, int | None]],
) -> None:
    life = Life()
    for transition, later, trigger, series_policy, max_runs in sequence:
        life.now += later
        before = life.entry
        legal = goes_to(transition, before.task) is not None
        step = life.step(transition, trigger, series_policy, max_runs)
        if not legal:
            assert step.answer in (Answer.REFUSED, Answer.UNKNOWN, Answer.STALE, Answer.ALREADY)
        if step.answer in (Answer.REFUSED, Answer.UNKNOWN, Answer.STALE, Answer.ALREADY):
            assert step.entry == before
            assert step.runs == ()
        if step.task is not None:
            check(step.task)
        for run in step.runs:
            assert run.fires >= 1
        life.entry = step.entry


@settings(max_examples=200)
@given(st.lists(moves, max_size=25))
def test_whatever_is_live_can_be_brought_to_an_end(
    sequence: list[tuple[Transition, int, str | None, str | None, int | None]],
) -> None:
    """Nothing is stranded: any live task can be run, or cancelled, in a few steps."""
    life = Life()
    for transition, later, trigger, series_policy, max_runs in sequence:
        life.now += later
        life.entry = life.step(transition, trigger, series_policy, max_runs).entry
    task = life.entry.task
    if task is None or not task.status.is_live:
        return
    for transition in (Transition.CANCEL, Transition.RELEASE):
        if life.entry.task is not None and life.entry.task.status.is_live:
            life.entry = life.step(transition, None, None, None).entry
    assert life.entry.task is not None
    assert life.entry.task.status is TaskStatus.CANCELLED
