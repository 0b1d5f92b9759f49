"""What an activity of a user leads to: its checks, in their order, as one pure function.

disabled    the type is off
coalesced   a live task already waits or runs: the activity joins it
blocked     so many tasks in a row ended failed that the breaker is open
full        the type has as many pending tasks as it may have
cooldown    it ran less than one interval ago, and the type skips such activity
deferred    the same, but the type keeps it: due one interval after the last run
created     due one interval from now
"""

from __future__ import annotations

from typing import NamedTuple

from rota.clock import Instant
from rota.core import lifecycle
from rota.core.outcome import Touched, TouchOutcome
from rota.core.task import Activity, Entry
from rota.core.task_type import TaskType

__all__ = ["Touching", "touch"]


class Touching(NamedTuple):
    """The answer to an activity, and the step to be written (None: nothing changes)."""

    touched: Touched
    step: lifecycle.Step | None


def touch(
    entry: Entry, activity: Activity, task_type: TaskType, *, enabled: bool, pending: int, now: Instant
) -> Touching:
    """Decide what an activity leads to. `pending` is how many tasks of the type wait already."""
    if not enabled:
        return _nothing(TouchOutcome.DISABLED)
    if entry.task is not None and entry.task.status.is_live:
        return _join(entry, activity, task_type, now)
    if _was_seen(entry, activity):
        return _nothing(TouchOutcome.COALESCED)
    if lifecycle.breaker_is_open(entry.past, task_type, now):
        return _nothing(TouchOutcome.BLOCKED)
    if pending >= task_type.max_pending:
        return _nothing(TouchOutcome.FULL)
    last = entry.past.last_exec_at
    if last is not None and now < last + task_type.interval_ms:
        if task_type.cooldown == "skip":
            return _nothing(TouchOutcome.COOLDOWN)
        return _create(TouchOutcome.DEFERRED, entry, activity, last + task_type.interval_ms, task_type, now)
    return _create(TouchOutcome.CREATED, entry, activity, now + task_type.interval_ms, task_type, now)


def _was_seen(entry: Entry, activity: Activity) -> bool:
    """Whether a spooled activity is older than the identity's last claim: the run has dealt with it."""
    return (
        activity.at is not None and entry.past.last_claimed_at is not None and activity.at <= entry.past.last_claimed_at
    )


def _join(entry: Entry, activity: Activity, task_type: TaskType, now: Instant) -> Touching:
    assert entry.task is not None
    if _was_seen(entry, activity):
        return Touching(Touched(TouchOutcome.COALESCED, entry.task.scheduled_at, entry.task.coalesced), None)
    step = lifecycle.touch(entry, task_type, now)
    assert step.task is not None, "a live task can always be touched"
    return Touching(Touched(TouchOutcome.COALESCED, step.task.scheduled_at, step.task.coalesced), step)


def _create(
    outcome: TouchOutcome, entry: Entry, activity: Activity, due_at: Instant, task_type: TaskType, now: Instant
) -> Touching:
    step = lifecycle.schedule_activity(entry, activity, due_at, task_type, now)
    return Touching(Touched(outcome, due_at, 0), step)


def _nothing(outcome: TouchOutcome) -> Touching:
    return Touching(Touched(outcome, None, 0), None)
