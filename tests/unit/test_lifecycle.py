"""The steps of the lifecycle that a store cannot show by itself: guards, counts, what is remembered, what is kept."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rota.clock import DAY, HOUR, MINUTE, SECOND
from rota.core import lifecycle
from rota.core.lifecycle import MAX_CRASHES, MAX_SNOOZES, Step
from rota.core.outcome import Answer
from rota.core.task import (
    NO_PAST,
    Change,
    Entry,
    Lease,
    NewTask,
    Past,
    Renewal,
    RunStatus,
    Settlement,
    Task,
    TaskStatus,
    Transition,
    Want,
)
from rota.core.task_type import TaskType
from rota.triggers import Interval, Once, encode_trigger

NOW = 20_000 * DAY
TYPE = TaskType(name="work", max_retries=1)
HOURLY = encode_trigger(Interval(HOUR, NOW))
LEASE = Lease(7, NOW + 10 * SECOND, "i1", "c1")


def scheduled(trigger: str | None = None) -> Entry:
    new = NewTask(task_type="work", key="k", trigger=trigger)
    return lifecycle.schedule(Entry(None, NO_PAST), new, TYPE, NOW).entry


def running(trigger: str | None = None, now: int = NOW) -> Entry:
    entry = scheduled(trigger)
    assert entry.task is not None
    step = lifecycle.claim(entry, LEASE, TYPE, max(now, entry.task.scheduled_at))
    assert step.answer is Answer.OK
    return step.entry


def task_of(step: Step | Entry) -> Task:
    assert step.task is not None
    return step.task


def settle(entry: Entry, transition: Transition, now: int = NOW, token: int = 7, **fields: object) -> Step:
    settlement = Settlement(task_type="work", key="k", token=token, transition=transition)
    return lifecycle.settle(entry, replace(settlement, **fields), TYPE, now)


class TestGuards:
    @pytest.mark.parametrize("transition", [Transition.COMPLETE, Transition.RETRY, Transition.FAIL])
    def test_a_wrong_token_settles_nothing(self, transition: Transition) -> None:
        entry = running()
        step = settle(entry, transition, token=6)
        assert (step.answer, step.entry, step.runs) == (Answer.STALE, entry, ())

    def test_a_claim_waits_until_it_is_due(self) -> None:
        entry = scheduled(HOURLY)
        step = lifecycle.claim(entry, LEASE, TYPE, NOW + HOUR - 1)
        assert (step.answer, step.entry) == (Answer.REFUSED, entry)

    def test_a_lease_that_has_not_run_out_is_not_reaped(self) -> None:
        entry = running()
        assert lifecycle.reap(entry, TYPE, LEASE.until - 1).answer is Answer.REFUSED
        assert lifecycle.reap(entry, TYPE, LEASE.until).answer is Answer.OK

    def test_a_renewal_needs_the_current_token(self) -> None:
        entry = running()
        assert lifecycle.renew(entry, Renewal("work", "k", 8), NOW + DAY).answer is Answer.STALE
        assert task_of(lifecycle.renew(entry, Renewal("work", "k", 7), NOW + DAY)).lease_until == NOW + DAY
        assert task_of(lifecycle.renew(entry, Renewal("work", "k", 7), NOW)).lease_until == LEASE.until


class TestCounts:
    def test_errors_and_crashes_are_apart_and_attempt_is_for_people(self) -> None:
        entry = running()
        once = settle(entry, Transition.RETRY)
        assert (task_of(once).errors, task_of(once).crashes, task_of(once).attempt) == (1, 0, 1)
        again = lifecycle.claim(once.entry, LEASE, TYPE, NOW + DAY)
        lost = lifecycle.reap(again.entry, TYPE, NOW + DAY)
        assert (task_of(lost).errors, task_of(lost).crashes, task_of(lost).attempt) == (1, 1, 2)

    @pytest.mark.parametrize("transition", [Transition.SNOOZE, Transition.RELEASE])
    def test_what_counts_nowhere(self, transition: Transition) -> None:
        step = settle(running(), transition)
        assert (task_of(step).errors, task_of(step).crashes, task_of(step).attempt) == (0, 0, 0)
        assert step.past.last_exec_at is None
        assert step.past.fail_count == 0

    def test_snoozes_count_in_a_row_only(self) -> None:
        entry = running()
        entry = Entry(replace(task_of(entry), snoozes=MAX_SNOOZES - 1), entry.past)
        assert task_of(settle(entry, Transition.SNOOZE)).snoozes == MAX_SNOOZES
        assert task_of(settle(entry, Transition.RELEASE)).snoozes == 0

    def test_the_last_crash_is_poison(self) -> None:
        entry = running()
        entry = Entry(replace(task_of(entry), crashes=MAX_CRASHES - 1), entry.past)
        step = lifecycle.reap(entry, TYPE, LEASE.until)
        assert (task_of(step).status, task_of(step).reason) == (TaskStatus.FAILED, "poison")
        assert [(run.status, run.reason) for run in step.runs] == [(RunStatus.LOST, "poison")]


class TestMemory:
    def test_success_and_failure_both_start_the_cooldown(self) -> None:
        for transition in (Transition.COMPLETE, Transition.FAIL, Transition.DISCARD):
            assert settle(running(), transition).past.last_exec_at == NOW

    def test_it_is_kept_a_day_or_two_intervals(self) -> None:
        assert settle(running(), Transition.COMPLETE).past.forget_at == NOW + DAY
        slow = replace(TYPE, interval_ms=5 * DAY)
        settlement = Settlement(task_type="work", key="k", token=7, transition=Transition.COMPLETE)
        assert lifecycle.settle(running(), settlement, slow, NOW).past.forget_at == NOW + 10 * DAY

    def test_a_task_that_ended_failed_counts_against_the_breaker(self) -> None:
        step = settle(running(), Transition.FAIL)
        assert (step.past.fail_count, step.past.fail_until) == (1, NOW + DAY)
        assert settle(running(), Transition.RETRY).past.fail_count == 0

    def test_complete_forgets_the_failures_and_discard_does_not(self) -> None:
        entry = Entry(running().task, Past(fail_count=1, fail_until=NOW + DAY))
        assert settle(entry, Transition.COMPLETE).past.fail_count == 0
        assert settle(entry, Transition.DISCARD).past.fail_count == 1

    def test_a_cancelled_run_starts_no_cooldown_unless_it_was_done(self) -> None:
        entry = lifecycle.cancel(running(), TYPE, NOW).entry
        assert settle(entry, Transition.RELEASE).past.last_exec_at is None
        assert settle(entry, Transition.COMPLETE).past.last_exec_at == NOW

    def test_the_last_claim_is_remembered(self) -> None:
        assert running(now=NOW + 5).past.last_claimed_at == NOW + 5


class TestLeaving:
    def test_only_a_completion_is_told_to_those_who_come_after(self) -> None:
        told = {
            transition: settle(running(), transition).completed
            for transition in (Transition.COMPLETE, Transition.DISCARD, Transition.FAIL)
        }
        assert told == {Transition.COMPLETE: True, Transition.DISCARD: False, Transition.FAIL: False}

    def test_the_row_keeps_the_real_outcome_in_every_case(self) -> None:
        cancelled = lifecycle.cancel(running(), TYPE, NOW).entry
        step = settle(cancelled, Transition.FAIL, error="boom")
        assert task_of(step).status is TaskStatus.CANCELLED
        assert [(run.status, run.error) for run in step.runs] == [(RunStatus.ERROR, "boom")]

    def test_a_wish_to_cancel_comes_before_a_retry_a_fire_and_activity(self) -> None:
        entry = running(HOURLY)
        wanted = Entry(replace(task_of(entry), want=Want.CANCEL, dirty=True), entry.past)
        for transition in (Transition.RETRY, Transition.COMPLETE, Transition.RELEASE):
            assert task_of(settle(wanted, transition, NOW + HOUR)).status is TaskStatus.CANCELLED

    def test_nothing_of_the_lease_is_left(self) -> None:
        for transition in (
            Transition.COMPLETE,
            Transition.RETRY,
            Transition.FAIL,
            Transition.SNOOZE,
            Transition.RELEASE,
        ):
            task = task_of(settle(running(), transition))
            assert (task.token, task.lease_until, task.instance, task.claim_id) == (0, None, None, None)
            assert (task.last_token, task.last_outcome) == (7, transition)

    def test_a_finished_record_says_until_when_it_is_kept(self) -> None:
        assert task_of(settle(running(), Transition.COMPLETE)).purge_at == NOW + TYPE.task_ttl_ms
        assert task_of(settle(running(), Transition.FAIL)).purge_at == NOW + TYPE.dead_ttl_ms

    def test_a_live_record_is_never_purged(self) -> None:
        for transition in (Transition.RETRY, Transition.SNOOZE, Transition.RELEASE):
            assert task_of(settle(running(), transition)).purge_at is None


class TestSeries:
    def test_a_replaced_trigger_takes_over_when_the_run_ends(self) -> None:
        entry = running(HOURLY)
        at = NOW + HOUR + MINUTE
        new = encode_trigger(Interval(10 * MINUTE, NOW))
        edited = lifecycle.update(entry, Change(task_type="work", key="k", trigger=new), at)
        step = settle(edited.entry, Transition.COMPLETE, at + MINUTE)
        assert task_of(step).next_fire == NOW + HOUR + 10 * MINUTE

    def test_a_replaced_single_time_takes_over_too(self) -> None:
        once = encode_trigger(Once(NOW + 3 * HOUR))
        edited = lifecycle.update(running(), Change(task_type="work", key="k", trigger=once), NOW)
        for transition in (
            Transition.COMPLETE,
            Transition.FAIL,
            Transition.RETRY,
            Transition.RELEASE,
            Transition.SNOOZE,
        ):
            task = task_of(settle(edited.entry, transition, NOW + MINUTE))
            assert (task.status, task.scheduled_at, task.attempt) == (TaskStatus.PENDING, NOW + 3 * HOUR, 0)

    def test_a_retry_belongs_to_its_fire(self) -> None:
        first = settle(running(HOURLY), Transition.RETRY, NOW + HOUR, after_ms=3 * HOUR)
        again = lifecycle.claim(first.entry, LEASE, TYPE, NOW + 4 * HOUR)
        assert (task_of(again).fire_at, again.runs) == (NOW + HOUR, ())
        done = settle(again.entry, Transition.COMPLETE, NOW + 4 * HOUR)
        assert [(run.status, run.reason, run.fires) for run in done.runs] == [
            (RunStatus.SUCCESS, None, 1),
            (RunStatus.SKIPPED, "overlap", 3),
        ]
        assert task_of(done).next_fire == NOW + 5 * HOUR

    def test_nothing_happens_to_what_is_not_there(self) -> None:
        nobody = Entry(None, NO_PAST)
        for step in (
            lifecycle.pause(nobody, NOW),
            lifecycle.resume(nobody, TYPE, NOW),
            lifecycle.cancel(nobody, TYPE, NOW),
            lifecycle.run_now(nobody, NOW),
            lifecycle.redrive(nobody, NOW),
            lifecycle.end(nobody, TYPE, NOW),
            lifecycle.purge(nobody),
            lifecycle.update(nobody, Change(task_type="work", key="k"), NOW),
            lifecycle.claim(nobody, LEASE, TYPE, NOW),
            lifecycle.reap(nobody, TYPE, NOW),
        ):
            assert (step.answer, step.task, step.runs) == (Answer.UNKNOWN, None, ())
