"""8: what was reaped or released was due "now", behind everything that had waited less long than it."""

from __future__ import annotations

import pytest

from rota.clock import HOUR
from rota.core import lifecycle
from rota.core.task import NO_PAST, Entry, Lease, NewTask, Settlement, Task, Transition
from rota.core.task_type import TaskType

NOW = 1_790_000_000_000
WORK = TaskType(name="work")


def claimed(*, due_at: int = NOW) -> Task:
    entry = Entry(None, NO_PAST)
    made = lifecycle.schedule(entry, NewTask(task_type="work", key="k", scheduled_at=due_at), WORK, due_at)
    running = lifecycle.claim(made.entry, Lease(7, NOW + 10_000, "i", "c"), WORK, NOW).task
    assert running is not None
    return running


def due_after(task: Task, transition: Transition, now: int) -> int:
    entry = Entry(task, NO_PAST)
    if transition is Transition.REAP:
        step = lifecycle.reap(entry, WORK, now)
    else:
        settlement = Settlement(task_type="work", key="k", token=task.token, transition=transition)
        step = lifecycle.settle(entry, settlement, WORK, now)
    assert step.task is not None
    assert step.task.status == "pending"
    return step.task.scheduled_at


@pytest.mark.parametrize("transition", [Transition.REAP, Transition.RELEASE])
def test_it_is_as_due_as_it_was(transition: Transition) -> None:
    assert due_after(claimed(due_at=NOW - HOUR), transition, NOW + 20_000) == NOW - HOUR


def test_a_clock_that_stepped_back_does_not_make_it_wait() -> None:
    assert due_after(claimed(), Transition.RELEASE, NOW - HOUR) == NOW - HOUR
