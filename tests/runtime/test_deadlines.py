"""One timer for the deadlines of all runs."""

from __future__ import annotations

import asyncio
import math

from rota.core.task import Task, TaskStatus
from rota.runtime.deadlines import Deadlines
from rota.runtime.running import Running
from rota.testing.waiting import until


def a_run(key: str) -> Running:
    return Running(Task("work", key, TaskStatus.RUNNING, 0, 0, 0), None, 1_000, 0.0)


async def test_each_is_told_once_in_the_order_of_deadlines() -> None:
    told: list[str] = []
    runs = {a_run(key) for key in "abc"}
    deadlines = Deadlines(runs, lambda running: told.append(running.task.key))
    for running in runs:
        deadlines.set(running, {"a": 0.09, "b": 0.01, "c": 0.05}[running.task.key])
    await until(lambda: len(told) == 3)
    assert told == ["b", "c", "a"]
    assert all(running.deadline == math.inf for running in runs)


async def test_what_has_ended_or_was_taken_back_is_not_told() -> None:
    told: list[Running] = []
    ended, settled, late = a_run("ended"), a_run("settled"), a_run("late")
    runs = {ended, settled, late}
    deadlines = Deadlines(runs, told.append)
    deadlines.set(ended, 0.01)
    deadlines.set(settled, 0.01)
    deadlines.set(late, 0.03)
    runs.discard(ended)
    settled.begin_settling(None, 0.0)
    await until(lambda: told)
    assert told == [late]


async def test_another_deadline_replaces_the_first() -> None:
    told: list[float] = []
    loop = asyncio.get_running_loop()
    running = a_run("a")
    deadlines = Deadlines({running}, lambda _: told.append(loop.time()))
    deadlines.set(running, 60)
    began = loop.time()
    deadlines.set(running, 0.02)
    await until(lambda: told)
    assert told[0] - began >= 0.02
    deadlines.close()
