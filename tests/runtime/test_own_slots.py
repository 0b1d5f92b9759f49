"""A type with slots of its own, beside types that share the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import uuid4

import pytest
from stage import Stage

from rota.clock import HOUR
from rota.core.lifecycle import SUSPECT_CRASHES
from rota.runtime.dispatcher import Dispatcher, Slots
from rota.runtime.worker import WorkerSettings
from rota.stores.base import Beat, ClaimRequest
from rota.testing import FakeClock
from rota.testing.waiting import until

PATIENT = WorkerSettings(check_interval_ms=HOUR)
"""Whatever starts was woken."""


ALL_SHARED = "all that share slots"


class Crowd:
    """Runs of several types that last until they are let go, and how many of each ran at most at a time."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.go: dict[str, asyncio.Semaphore] = {}

    async def join(self, stage: Stage, name: str, *, own: int | None = None) -> None:
        self.go[name] = asyncio.Semaphore(0)
        counted = (name,) if own is not None else (name, ALL_SHARED)

        async def handle() -> None:
            self.running.update(counted)
            self.most |= self.running
            try:
                await self.go[name].acquire()
            finally:
                self.running.subtract(counted)
            self.done[name] += 1

        await stage.add(handle, name, slots="shared" if own is None else "own", concurrency=own)

    def let_go(self, name: str, number: int = 1) -> None:
        for _ in range(number):
            self.go[name].release()


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


def keys(number: int) -> list[str]:
    return [f"k{each}" for each in range(number)]


async def test_five_blocked_runs_do_not_hold_it(stage: Stage, crowd: Crowd) -> None:
    await crowd.join(stage, "shared")
    await crowd.join(stage, "batch", own=64)
    await stage.schedule(*keys(7), name="shared")
    async with stage.at_work(PATIENT) as worker:
        await until(lambda: crowd.running["shared"] == 5)
        await stage.schedule(*keys(64), name="batch")
        await until(lambda: crowd.running["batch"] == 64)
        assert (crowd.running["shared"], worker.health().running) == (5, 69)


async def test_sixty_four_waiting_runs_do_not_hold_the_others(stage: Stage, crowd: Crowd) -> None:
    await crowd.join(stage, "shared")
    await crowd.join(stage, "batch", own=64)
    await stage.schedule(*keys(70), name="batch")
    async with stage.at_work(PATIENT):
        await until(lambda: crowd.running["batch"] == 64)
        await stage.schedule(*keys(7), name="shared")
        await until(lambda: crowd.running["shared"] == 5)
        crowd.let_go("shared", 7)
        await until(lambda: crowd.done["shared"] == 7)
    assert (crowd.most["batch"], crowd.most["shared"]) == (64, 5)


async def test_the_end_of_a_run_frees_its_slot_at_once(stage: Stage, crowd: Crowd) -> None:
    await crowd.join(stage, "shared")
    await crowd.join(stage, "batch", own=1)
    await stage.schedule(*keys(9), name="shared")
    await stage.schedule(*keys(3), name="batch")
    async with stage.at_work(PATIENT):
        for done in range(3):
            await until(lambda done=done: (crowd.running["batch"], crowd.done["batch"]) == (1, done))
            crowd.let_go("batch")
        await until(lambda: crowd.done["batch"] == 3)
    assert (crowd.most["batch"], crowd.done["shared"]) == (1, 0)


async def test_no_pool_is_ever_exceeded(stage: Stage, crowd: Crowd) -> None:
    limits = {"one": 2, "two": 3, "three": 7}
    for name, own in limits.items():
        await crowd.join(stage, name, own=own)
    for name in ("left", "right"):
        await crowd.join(stage, name)
    everyone = (*limits, "left", "right")
    async with stage.at_work(PATIENT):
        for name in everyone:
            crowd.let_go(name, 40)
            await stage.schedule(*keys(40), name=name)
        await until(lambda: all(crowd.done[name] == 40 for name in everyone))
    assert all(crowd.most[name] <= own for name, own in limits.items()), crowd.most
    assert crowd.most[ALL_SHARED] <= 5, crowd.most


async def test_all_that_is_due_is_worked_off_whoever_makes_it(stage: Stage) -> None:
    """A run that makes work for a pool which had nothing to do a moment ago."""
    done: list[str] = []

    async def handle(user_id: str) -> None:
        done.append(user_id)

    async def make(user_id: str) -> None:
        await stage.schedule(user_id, name="batch")

    await stage.add(make, "shared")
    await stage.add(handle, "batch", slots="own", concurrency=2)
    await stage.schedule(*keys(9), name="shared")
    assert await stage.worker(PATIENT).run_until_idle() == 18
    assert sorted(done) == keys(9)


async def test_a_suspect_runs_alone_also_beside_those_of_another_pool(
    still_stage: Stage, still_clock: FakeClock, crowd: Crowd
) -> None:
    stage = still_stage
    await crowd.join(stage, "shared")
    await crowd.join(stage, "batch", own=8)
    for name in ("shared", "batch"):
        await stage.schedule("a", "b", name=name)
    for _ in range(SUSPECT_CRASHES):
        wants = [("shared", 2), ("batch", 2)]
        request = ClaimRequest(wants=wants, instance="dead", claim_id=uuid4().hex, lease_ms=10_000)
        assert len((await stage.store.claim(request)).tasks) == 4
        for _ in range(12):
            await stage.store.tick(Beat(instance="alive"))
            still_clock.advance("1s")
    executor = stage.executor()
    slots = Slots(5, abandoned=1, lease_ms=10_000, check_interval_ms=10_000)
    duty = Dispatcher(stage.context(), executor, stage.handlers, stage.types, slots=slots)
    for _ in range(4):
        await duty.run_once()
        await until(lambda: all(one.handler is not None for one in executor.running), "what was put back is back")
        await duty.run_once()
        await until(lambda: all(one.handler is not None for one in executor.running), "what was put back is back")
        (only,) = executor.running
        crowd.let_go(only.task.task_type)
        await executor.drain()
    assert crowd.done == {"shared": 2, "batch": 2}
