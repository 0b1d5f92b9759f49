"""A type's priority counts against other types, on every store; and no type is kept waiting by another's runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from rota import Rota
from rota.clock import HOUR, MINUTE, Millis
from rota.core.task import NewTask
from rota.testing.waiting import until

STORES = ["memory", "sqlite", "postgres", "redis"]


class Shift:
    """An app whose handlers write down what begins, and wait for leave to end if they are told to."""

    def __init__(self, url: str, slots: int, **priorities: int) -> None:
        config = {"store": url, "spool": "off", "scheduler": {"executor": {"max_concurrent": slots}}}
        self.app = Rota(config)
        self.begun: list[str] = []
        self.leave = asyncio.Event()
        self.leave.set()
        for name, priority in priorities.items():
            self._declare(name, priority)

    def _declare(self, name: str, priority: int) -> None:
        @self.app.task(name=name, priority=priority)
        async def work() -> None:
            self.begun.append(name)
            await self.leave.wait()

    async def due(self, name: str, number: int, *, late: Millis = 0) -> None:
        store = await self.app.store()
        at = await store.now() - late
        news = [NewTask(task_type=name, key=f"{each:03}-{late}", scheduled_at=at) for each in range(number)]
        await store.schedule(news)

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None]:
        """Whatever begins now does not end."""
        self.leave.clear()
        await self.app.start()
        try:
            yield
        finally:
            self.leave.set()
            await self.app.stop(5)


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest) -> str:
    return "memory://" if request.param == "memory" else str(request.getfixturevalue(f"{request.param}_url"))


async def test_with_one_slot_the_higher_type_runs_first(url: str) -> None:
    shift = Shift(url, 1, alow=1, bhigh=9, clow=1)
    async with shift.app:
        for name in ("alow", "clow", "bhigh"):
            await shift.due(name, 4)
        await shift.app.run_until_idle()
    assert shift.begun[:4] == ["bhigh"] * 4
    assert Counter(shift.begun[4:8]) == {"alow": 2, "clow": 2}, "equals take turns"


async def test_with_one_slot_who_has_waited_its_levels_runs_first(url: str) -> None:
    """Eight levels of 30 s each: what is five minutes late goes before, what is three minutes late does not."""
    shift = Shift(url, 1, low=1, high=9)
    async with shift.app:
        await shift.due("high", 2)
        await shift.due("low", 1, late=5 * MINUTE)
        await shift.due("low", 1, late=3 * MINUTE)
        await shift.app.run_until_idle()
    assert shift.begun == ["low", "high", "high", "low"]


async def test_a_long_queue_does_not_starve_a_type_of_equal_priority(url: str) -> None:
    shift = Shift(url, 1, late=5, fresh=5, idle=5, quiet=5)
    async with shift.app:
        await shift.due("late", 20, late=HOUR)
        await shift.due("fresh", 4)
        await shift.app.run_until_idle()
    assert Counter(shift.begun[:8]) == {"late": 4, "fresh": 4}


async def test_a_type_that_fills_the_slots_leaves_one_to_each_of_the_others(url: str) -> None:
    shift = Shift(url, 4, hog=9, other=1, third=1)
    async with shift.app:
        await shift.due("hog", 8)
        async with shift.at_work():
            await until(lambda: len(shift.begun) >= 2)
            await shift.due("other", 2)
            await until(lambda: "other" in shift.begun)
            await shift.due("third", 1)
            await until(lambda: "third" in shift.begun)
            assert Counter(shift.begun) == {"hog": 2, "other": 1, "third": 1}


async def test_a_type_alone_has_every_slot(url: str) -> None:
    shift = Shift(url, 4, only=5)
    async with shift.app:
        await shift.due("only", 8)
        async with shift.at_work():
            await until(lambda: len(shift.begun) == 4)


async def test_a_type_that_is_held_keeps_no_slot(url: str) -> None:
    shift = Shift(url, 3, hog=5, held=5)
    async with shift.app:
        await shift.app.freeze("held")
        await shift.due("hog", 8)
        async with shift.at_work():
            await until(lambda: len(shift.begun) == 3)
