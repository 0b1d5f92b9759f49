"""Number 5: five histories in which fires of a series left no row, or the series was shifted.

The rules for every store are in rota.testing.conformance.series; this is the pure lifecycle, one test for each.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from rota.clock import DAY, SECOND, Instant, Millis
from rota.core import lifecycle
from rota.core.lifecycle import Step
from rota.core.outcome import Answer
from rota.core.task import NO_PAST, Change, Entry, Lease, NewTask, Settlement, Task, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.triggers import Interval, Policy, encode_trigger

START: Instant = 20_000 * DAY
TYPE = TaskType(name="work", max_retries=1)
EVERY: Millis = 5 * SECOND


class Series:
    """A series that fires 5, 10, 15 ... seconds after the start, and the seconds that its rows account for."""

    def __init__(self, policy: Policy | None = None) -> None:
        text = None if policy is None else msgspec.json.encode(policy).decode()
        new = NewTask(task_type="work", key="k", trigger=encode_trigger(Interval(EVERY, START)), policy=text)
        self.entry = Entry(None, NO_PAST)
        self.accounted: list[int] = []
        self._tokens = 0
        self._write(lifecycle.schedule(self.entry, new, TYPE, START))

    @property
    def task(self) -> Task:
        assert self.entry.task is not None
        return self.entry.task

    @property
    def next_second(self) -> float:
        assert self.task.next_fire is not None
        return (self.task.next_fire - START) / SECOND

    def claim(self, second: int) -> Task:
        self._tokens += 1
        lease = Lease(self._tokens, START + (second + 60) * SECOND, "i", f"c{second}")
        self._write(lifecycle.claim(self.entry, lease, TYPE, START + second * SECOND))
        return self.task

    def settle(self, second: int, transition: Transition = Transition.COMPLETE) -> None:
        settled = Settlement(task_type="work", key="k", token=self.task.token, transition=transition)
        self._write(lifecycle.settle(self.entry, settled, TYPE, START + second * SECOND))

    def cancel(self, second: int) -> None:
        self._write(lifecycle.cancel(self.entry, TYPE, START + second * SECOND))

    def run_now(self, second: int) -> None:
        self._write(lifecycle.run_now(self.entry, START + second * SECOND))

    def update(self, second: int, **fields: object) -> None:
        change = replace(Change(task_type="work", key="k"), **fields)
        self._write(lifecycle.update(self.entry, change, START + second * SECOND))

    def _write(self, step: Step) -> None:
        assert step.answer is Answer.OK
        self.entry = step.entry
        for run in step.runs:
            if run.fire_at is not None:
                first = (run.fire_at - START) // SECOND
                self.accounted += range(first, first + 5 * run.fires, 5)


def test_fires_during_a_run_that_is_then_cancelled() -> None:
    series = Series()
    series.claim(5)
    series.cancel(21)
    series.settle(22, Transition.DISCARD)
    assert series.task.status is TaskStatus.CANCELLED
    assert series.accounted == [5, 10, 15, 20]


def test_what_a_catch_up_owes_when_the_policy_calls_it_off() -> None:
    series = Series(Policy(misfire="all"))
    series.claim(21)
    series.update(21, policy=msgspec.json.encode(Policy(misfire="latest")).decode())
    series.settle(22)
    series.claim(26)
    series.settle(27)
    assert series.accounted == [5, 10, 15, 20, 25]


def test_what_was_due_when_the_trigger_is_replaced_during_a_run_by_hand() -> None:
    series = Series()
    series.run_now(16)
    series.claim(16)
    series.update(17, trigger=encode_trigger(Interval(60 * SECOND, START + 17 * SECOND)))
    series.settle(18)
    assert series.accounted == [5, 10, 15]
    assert series.next_second == 77


def test_a_new_trigger_owes_nothing_from_before_it_was_written() -> None:
    series = Series(Policy(misfire="all"))
    series.claim(21)
    series.update(21, trigger=encode_trigger(Interval(2 * SECOND, START)))
    series.settle(22, Transition.RELEASE)
    series.claim(22)
    series.settle(23)
    assert series.next_second == 24


def test_a_due_time_set_by_hand_runs_no_fire_of_the_future() -> None:
    series = Series()
    series.update(1, scheduled_at=START + 3 * SECOND)
    task = series.claim(3)
    assert (task.manual, task.fire_at) == (True, START + 3 * SECOND)
    series.settle(4)
    assert (series.next_second, series.task.scheduled_at) == (5, START + 5 * SECOND)
    assert series.accounted == []
