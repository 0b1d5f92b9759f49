"""Duties that are added to a worker: they live as its own ones do, and end before it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from stage import Stage

from rota.clock import Instant
from rota.errors import InvalidConfig
from rota.runtime import Health, Worker, WorkerSettings
from rota.runtime.duty import Duty, DutyContext
from rota.testing import FakeClock
from rota.testing.waiting import until


class Watering(Duty[int]):
    """Counts its passes; each does what it is told to."""

    name = "watering"

    def __init__(self, context: DutyContext, work: Callable[[], Awaitable[None]], pause: float = 0.01) -> None:
        super().__init__(context.pulse, context.chance)
        self.context = context
        self._work = work
        self._pause = pause
        self.passes = 0
        self.said: list[str] = []

    async def run_once(self, now: Instant | None = None) -> int:
        self.passes += 1
        await self._work()
        self.said.append("done")
        return self.passes

    def pause_after(self, report: int) -> float:
        return self._pause

    async def close(self) -> None:
        self.said.append("closed")


class Garden:
    """A worker with one duty that was added."""

    def __init__(self, stage: Stage, grace_ms: int = 5_000) -> None:
        self._stage = stage
        self._settings = WorkerSettings(grace_ms=grace_ms)
        self.made: list[Watering] = []
        self.work: Callable[[], Awaitable[None]] = nothing
        self.kind = Watering

    def make(self, context: DutyContext) -> Duty[int]:
        self.made.append(self.kind(context, lambda: self.work()))
        return self.made[-1]

    @property
    def duty(self) -> Watering:
        return self.made[0]

    def worker(self, *duties: Callable[[DutyContext], Duty[Any]]) -> Worker:
        stage = self._stage
        return Worker(
            stage.store,
            stage.handlers,
            stage.types,
            self._settings,
            clock=stage.clock,
            duties=lambda context: [make(context) for make in duties or (self.make,)],
        )

    @asynccontextmanager
    async def at_work(self, seconds: float = 0) -> AsyncGenerator[Worker]:
        worker = self.worker()
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            try:
                yield worker
            finally:
                await worker.stop(seconds)


async def nothing() -> None: ...


async def for_ever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ValueError("The tap is broken.")


@pytest.fixture
def garden(memory_stage: Stage) -> Garden:
    return Garden(memory_stage)


def fails(health: Health) -> bool:
    return not health.ok and any("watering" in reason and "The tap is broken." in reason for reason in health.reasons)


async def test_it_runs_beside_the_runs(garden: Garden, memory_stage: Stage) -> None:
    await memory_stage.add(nothing)
    async with garden.at_work() as worker:
        await until(lambda: garden.duty.passes >= 3)
        await memory_stage.schedule("u1")
        await memory_stage.reached("u1", "completed")
        context = garden.duty.context
        assert (context.store, context.instance) == (memory_stage.store, worker.instance)
    assert garden.duty.said[-1] == "closed"


async def test_one_that_fails_turns_the_health_red_by_its_name_and_goes_on(garden: Garden) -> None:
    garden.work = fail
    async with garden.at_work() as worker:
        await until(lambda: fails(worker.health()))
        await until(lambda: garden.duty.passes >= 3, "it is tried again")
        garden.work = nothing
        await until(lambda: worker.health().ok, "it is good again")


async def test_one_that_cannot_say_when_it_comes_again_harms_nobody(garden: Garden) -> None:
    class Broken(Watering):
        def pause_after(self, report: int) -> float:
            raise ValueError("The tap is broken.")

    garden.kind = Broken
    async with garden.at_work() as worker:
        await until(lambda: fails(worker.health()) and garden.duty.passes >= 2)
        assert worker.is_running


async def test_a_call_of_its_own_that_was_cancelled_does_not_end_it(garden: Garden) -> None:
    async def stumble() -> None:
        raise asyncio.CancelledError

    garden.work = stumble
    async with garden.at_work() as worker:
        await until(lambda: garden.duty.passes >= 3)
        assert any("The watering fails. CancelledError" in reason for reason in worker.health().reasons)
    assert garden.duty.said == ["closed"]


async def test_one_that_is_silent_for_longer_than_its_patience_turns_the_health_red(still_stage: Stage) -> None:
    class Impatient(Watering):
        patience = 30.0

    clock = still_stage.clock
    assert isinstance(clock, FakeClock)
    garden = Garden(still_stage, grace_ms=50)
    garden.kind, garden.work = Impatient, for_ever
    async with garden.at_work() as worker:
        await until(lambda: garden.made and garden.duty.passes == 1)
        assert (worker.health().seconds_since_good or {})["watering"] is None
        clock.advance("31s")
        assert any("The watering has been silent" in reason for reason in worker.health().reasons)


async def test_a_stop_awaits_its_pass_and_its_last_words(garden: Garden) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        await go_on.wait()

    garden.work = slow
    async with garden.at_work() as worker:
        await begun.wait()
        stopping = asyncio.create_task(worker.stop(timeout=30))
        await until(lambda: garden.duty.is_stopping)
        assert not stopping.done()
        go_on.set()
        await stopping
        assert garden.duty.said == ["done", "closed"]
        assert not worker.is_running


async def test_it_goes_on_until_the_last_run_has_ended(garden: Garden, memory_stage: Stage) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handle() -> None:
        begun.set()
        await go_on.wait()

    await memory_stage.add(handle)
    async with garden.at_work() as worker:
        await memory_stage.schedule("u1")
        await begun.wait()
        stopping = asyncio.create_task(worker.stop(timeout=30))
        before = garden.duty.passes
        await until(lambda: garden.duty.passes > before + 1)
        assert not garden.duty.is_stopping
        go_on.set()
        await stopping
    assert await memory_stage.status("u1") == "completed"
    assert garden.duty.said[-1] == "closed"


@pytest.mark.parametrize("seconds", [0, 30])
async def test_one_that_hangs_is_cancelled_after_the_grace_and_closed(memory_stage: Stage, seconds: float) -> None:
    garden = Garden(memory_stage, grace_ms=50)
    garden.work = for_ever
    async with asyncio.timeout(20), garden.at_work(seconds):
        await until(lambda: garden.made and garden.duty.passes == 1)
    assert garden.duty.said == ["closed"]


@pytest.mark.parametrize("last_words", [for_ever, fail])
async def test_last_words_that_do_not_end_or_fail_keep_nobody(
    memory_stage: Stage, last_words: Callable[[], Awaitable[None]]
) -> None:
    class Talking(Watering):
        async def close(self) -> None:
            await last_words()

    garden = Garden(memory_stage, grace_ms=50)
    garden.kind = Talking
    async with asyncio.timeout(20), garden.at_work():
        await until(lambda: garden.made and garden.duty.passes >= 1)
    assert await memory_stage.store.instances() == []


async def test_a_worker_that_is_cancelled_ends_it_as_well(memory_stage: Stage) -> None:
    garden = Garden(memory_stage, grace_ms=50)
    worker = garden.worker()
    working = asyncio.create_task(worker.run())
    await until(lambda: garden.duty.passes >= 1)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert garden.duty.said[-1] == "closed"


async def test_working_off_what_is_due_leaves_it_alone(garden: Garden, memory_stage: Stage) -> None:
    await memory_stage.add(nothing)
    await memory_stage.schedule("u1")
    assert await garden.worker().run_until_idle() == 1
    assert (garden.duty.passes, garden.duty.said) == (0, [])


def test_the_name_of_a_duty_is_its_own(garden: Garden) -> None:
    class Pump(Watering):
        name = "pump"

    with pytest.raises(InvalidConfig, match="Two duties are called 'pump'"):
        garden.worker(lambda context: Pump(context, nothing))
    with pytest.raises(InvalidConfig, match="'watering'"):
        garden.worker(garden.make, garden.make)
