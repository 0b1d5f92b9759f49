"""What an activity leads to: the order of the checks, each outcome, and what is written."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rota.clock import DAY, HOUR, MINUTE
from rota.core.activity import touch
from rota.core.outcome import TouchOutcome
from rota.core.task import NO_PAST, Activity, Entry, Past, Task, TaskStatus
from rota.core.task_type import TaskType

NOW = 10 * DAY
ACTIVITY = Activity(task_type="work", key="k", user_id="u1", device_id="d", agent_id="a")
TYPE = TaskType(name="work", interval_ms=30 * MINUTE, max_retries=2, max_pending=3)
LIVE = Task(task_type="work", key="k", status=TaskStatus.PENDING, scheduled_at=NOW + MINUTE, created_at=0, updated_at=0)
BLOCKED = Past(fail_count=2, fail_until=NOW + 1, last_exec_at=NOW - MINUTE)
RECENT = Past(last_exec_at=NOW - MINUTE)


def decide(
    task: Task | None = None,
    past: Past = NO_PAST,
    task_type: TaskType = TYPE,
    *,
    enabled: bool = True,
    pending: int = 0,
    activity: Activity = ACTIVITY,
) -> TouchOutcome:
    answer = touch(Entry(task, past), activity, task_type, enabled=enabled, pending=pending, now=NOW)
    writes = answer.touched.outcome in (TouchOutcome.CREATED, TouchOutcome.DEFERRED)
    assert writes == (answer.step is not None and answer.step.task is not None and task is not LIVE)
    return answer.touched.outcome


class TestOrder:
    """Each check comes before all that follow it: everything below it would say otherwise."""

    def test_disabled_first(self) -> None:
        assert decide(LIVE, BLOCKED, enabled=False, pending=9) is TouchOutcome.DISABLED

    def test_then_coalesced(self) -> None:
        assert decide(LIVE, BLOCKED, pending=9) is TouchOutcome.COALESCED

    def test_then_blocked(self) -> None:
        assert decide(None, BLOCKED, pending=9) is TouchOutcome.BLOCKED

    def test_then_full(self) -> None:
        assert decide(None, RECENT, pending=3) is TouchOutcome.FULL

    def test_then_cooldown_or_deferred(self) -> None:
        assert decide(None, RECENT, pending=2) is TouchOutcome.COOLDOWN
        assert decide(None, RECENT, replace(TYPE, cooldown="defer"), pending=2) is TouchOutcome.DEFERRED

    def test_then_created(self) -> None:
        assert decide(pending=2) is TouchOutcome.CREATED


class TestEdges:
    @pytest.mark.parametrize("status", [TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED])
    def test_what_is_finished_is_not_live(self, status: TaskStatus) -> None:
        assert decide(replace(LIVE, status=status)) is TouchOutcome.CREATED

    @pytest.mark.parametrize("status", [TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.PAUSED])
    def test_what_is_live_is_joined(self, status: TaskStatus) -> None:
        answer = touch(Entry(replace(LIVE, status=status), NO_PAST), ACTIVITY, TYPE, enabled=True, pending=0, now=NOW)
        assert answer.touched == (TouchOutcome.COALESCED, LIVE.scheduled_at, 1)

    def test_the_cooldown_ends_exactly_after_one_interval(self) -> None:
        assert decide(past=Past(last_exec_at=NOW - TYPE.interval_ms + 1)) is TouchOutcome.COOLDOWN
        assert decide(past=Past(last_exec_at=NOW - TYPE.interval_ms)) is TouchOutcome.CREATED

    def test_the_breaker_ends_exactly_at_its_time(self) -> None:
        past = Past(fail_count=2, fail_until=NOW)
        assert decide(past=past) is TouchOutcome.CREATED
        assert decide(past=replace(past, fail_until=NOW + 1)) is TouchOutcome.BLOCKED
        assert decide(past=replace(past, fail_count=1, fail_until=NOW + 1)) is TouchOutcome.CREATED

    def test_without_retries_one_failure_opens_the_breaker(self) -> None:
        never = replace(TYPE, max_retries=0)
        assert decide(past=Past(fail_count=1, fail_until=NOW + 1), task_type=never) is TouchOutcome.BLOCKED
        assert decide(task_type=never) is TouchOutcome.CREATED

    def test_deferred_is_due_one_interval_after_the_last_run(self) -> None:
        answer = touch(Entry(None, RECENT), ACTIVITY, replace(TYPE, cooldown="defer"), enabled=True, pending=0, now=NOW)
        assert answer.touched.scheduled_at == NOW - MINUTE + TYPE.interval_ms

    def test_the_ids_are_kept(self) -> None:
        answer = touch(Entry(None, NO_PAST), ACTIVITY, TYPE, enabled=True, pending=0, now=NOW)
        assert answer.step is not None
        assert answer.step.task is not None
        assert (answer.step.task.user_id, answer.step.task.device_id, answer.step.task.agent_id) == ("u1", "d", "a")

    def test_an_old_activity_that_a_claim_has_seen_makes_nothing(self) -> None:
        old = replace(ACTIVITY, at=NOW - HOUR)
        assert decide(past=Past(last_claimed_at=NOW - HOUR), activity=old) is TouchOutcome.COALESCED
        assert decide(past=Past(last_claimed_at=NOW - HOUR - 1), activity=old) is TouchOutcome.CREATED
