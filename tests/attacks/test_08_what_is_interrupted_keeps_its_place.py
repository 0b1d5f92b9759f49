"""8: what was reaped or released was due "now", behind everything that had waited less long than it."""

from __future__ import annotations

import pytest

from rota.clock import HOUR
from rota.core import lifecycle
from rota.core.task import NO_PAST, Entry, Event, Lease, NewTask, Settlement, Task
from rota.core.task_type import TaskType

NOW = 1_790_000_000_000
WORK = TaskType(name="work")


def claimed(*, due_at: int = NOW) -> Task:
    entry = Entry(None, NO_PAST)
    made = lifecycle.schedule(entry, NewTask(task_type="work", key="k", scheduled_at=due_at), WORK, due_at)
    running = lifecycle.claim(made.entry, Lease(7, NOW + 10_000, "i", "c"), WORK, NOW).task
    assert running is not None
    return running


def due_after(task: Task, event: Event, now: int) -> int:
    entry = Entry(task, NO_PAST)
    if event is Event.REAP:
        step = lifecycle.reap(entry, WORK, now)
    else:
        settlement = Settlement(task_type="work", key="k", token=task.token, event=event)
        step = lifecycle.settle(entry, settlement, WORK, now)
    assert step.task is not None
    assert step.task.status == "pending"
    return step.task.scheduled_at


@pytest.mark.parametrize("event", [Event.REAP, Event.RELEASE])
def test_it_is_as_due_as_it_was(event: Event) -> None:
    assert due_after(claimed(due_at=NOW - HOUR), event, NOW + 20_000) == NOW - HOUR


def test_a_clock_that_stepped_back_does_not_make_it_wait() -> None:
    assert due_after(claimed(), Event.RELEASE, NOW - HOUR) == NOW - HOUR
