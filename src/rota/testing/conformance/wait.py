"""wait: until something may be due earlier than was known, always bounded. open and close: twice is harmless."""

from __future__ import annotations

import asyncio

import pytest

from rota.clock import HOUR, MINUTE
from rota.core.task import Transition
from rota.core.task_type import TaskType
from rota.testing.conformance.world import SETTLING, WORK, Suite, World

__all__ = ["TestOpenAndClose", "TestWait"]

LONG = MINUTE
"""Longer than any machine takes: whoever waits this long was not woken, and is told so."""


class TestWait(Suite):
    async def test_it_is_bounded(self, world: World) -> None:
        assert await world.store.wait(20) is False
        assert await world.store.wait(0) is False

    async def test_something_due_wakes_whoever_waits(self, world: World, work: TaskType) -> None:
        waiting = asyncio.ensure_future(world.store.wait(LONG))
        await world.schedule("k")
        assert await waiting is True

    async def test_nobody_misses_what_came_before_the_wait(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        assert await world.store.wait(LONG) is True

    async def test_a_retry_that_is_due_wakes_too(self, world: World, work: TaskType) -> None:
        await world.schedule("k", scheduled_at=world.now + HOUR)
        task = await world.claim_due("k")
        while await world.store.wait(50):
            pass
        waiting = asyncio.ensure_future(world.store.wait(LONG))
        await world.store.abandon("i1", task.claim_id or "", now=world.now)
        assert await waiting is True

    @pytest.mark.parametrize("transition", SETTLING)
    async def test_so_does_whoever_lets_the_next_one_in(
        self, world: World, work: TaskType, transition: Transition
    ) -> None:
        """Also whoever has settled it: a slot that is free again is no reason to ask for more, but this is."""
        await world.schedule("a", serial="s")
        await world.schedule("b", serial="s")
        (holder,) = await world.claim(2)
        while await world.store.wait(50):
            pass
        waiting = asyncio.ensure_future(world.store.wait(LONG))
        await world.settle(holder, transition, after_ms=HOUR)
        assert await waiting is True

    async def test_switching_a_type_on_wakes(self, world: World, work: TaskType) -> None:
        await world.store.override_type(WORK, {"enabled": False})
        while await world.store.wait(50):
            pass
        waiting = asyncio.ensure_future(world.store.wait(LONG))
        await world.store.override_type(WORK, {"enabled": None})
        assert await waiting is True


class TestOpenAndClose(Suite):
    async def test_opening_twice_is_harmless(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.store.open()
        assert await world.task("k") is not None

    async def test_closing_twice_is_harmless(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.store.close()
        await world.store.close()

    async def test_it_can_be_opened_again(self, world: World, work: TaskType) -> None:
        await world.schedule("k")
        await world.store.close()
        await world.store.open()
        assert (await world.claim_one()).key == "k"
