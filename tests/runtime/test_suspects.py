"""Tasks that one more crash makes poison: an instance runs one of them at a time."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from stage import Stage

from rota.core.lifecycle import MAX_CRASHES, SUSPECT_CRASHES
from rota.core.task import Identity, RunStatus
from rota.runtime.dispatcher import Dispatcher, Slots
from rota.runtime.executor import Executor
from rota.stores.base import Beat, ClaimRequest, Store
from rota.testing import FakeClock, FaultyStore
from rota.testing.waiting import until

KEYS = ("a", "b", "c", "d")
go: dict[str, asyncio.Event] = {}


async def waiting(user_id: str) -> None:
    await go.setdefault(user_id, asyncio.Event()).wait()


async def accused(stage: Stage, clock: FakeClock, *keys: str, crashes: int = SUSPECT_CRASHES) -> None:
    """Tasks that ran so many times in a process that died."""
    go.clear()
    await stage.add(waiting)
    await stage.schedule(*keys)
    for _ in range(crashes):
        request = ClaimRequest(wants=[("work", len(keys))], instance="dead", claim_id=uuid4().hex, lease_ms=10_000)
        assert len((await stage.store.claim(request)).tasks) == len(keys)
        for _ in range(12):
            await stage.store.tick(Beat(instance="alive"))
            clock.advance("1s")
    assert [(await stage.task(key)).crashes for key in keys] == [crashes] * len(keys)


class Instance:
    """A dispatcher with its executor."""

    def __init__(self, stage: Stage, name: str = "here", store: Store | None = None) -> None:
        self.executor: Executor = stage.executor()
        slots = Slots(5, abandoned=1, lease_ms=10_000, check_interval_ms=10_000)
        context = stage.context(store, instance=name)
        self.dispatcher = Dispatcher(context, self.executor, stage.handlers, stage.types, slots=slots)

    async def round(self) -> list[str]:
        """One round of claims, until what was put back is back; who runs then."""
        await self.dispatcher.run_once()
        await until(lambda: all(one.handler is not None for one in self.executor.running), "what was put back is back")
        return self.at_work

    @property
    def at_work(self) -> list[str]:
        return sorted(one.task.key for one in self.executor.running)

    async def end(self, key: str) -> None:
        go.setdefault(key, asyncio.Event()).set()
        await until(lambda: key not in self.at_work, f"{key} has ended")

    async def close(self) -> None:
        self.executor.give_up()
        await self.executor.drain()


async def test_one_runs_and_the_others_wait_for_it(still_stage: Stage, still_clock: FakeClock) -> None:
    await accused(still_stage, still_clock, *KEYS)
    here = Instance(still_stage)
    seen: list[str] = []
    for _ in KEYS:
        (key,) = await here.round()
        assert await here.round() == [key], "no other one beside it"
        seen.append(key)
        await here.end(key)
    assert sorted(seen) == list(KEYS)
    assert [await still_stage.status(key) for key in KEYS] == ["completed"] * 4


async def test_waiting_counts_nowhere(still_stage: Stage, still_clock: FakeClock) -> None:
    await accused(still_stage, still_clock, *KEYS)
    here = Instance(still_stage)
    (running,) = await here.round()
    waits = [await still_stage.task(key) for key in KEYS if key != running]
    assert [(task.status.value, task.errors, task.crashes) for task in waits] == [("pending", 0, SUSPECT_CRASHES)] * 3
    await here.close()


async def test_those_that_wait_are_not_claimed_again_and_again(still_stage: Stage, still_clock: FakeClock) -> None:
    """Each is put back once at most, however many rounds are made and however many suspects there are."""
    await accused(still_stage, still_clock, *KEYS)
    faulty = FaultyStore(still_stage.store)
    here = Instance(still_stage, store=faulty)
    await here.round()
    before = faulty.calls["claim"]
    for _ in range(5):
        await here.round()
    assert faulty.calls["claim"] == before + 5, "one look each time, which brings nothing"
    for _ in KEYS:
        (key,) = await here.round()
        await here.end(key)
    put_back = [run for run in await still_stage.runs() if run.status is RunStatus.SKIPPED]
    assert len(put_back) == 3


async def test_other_instances_may_take_those_that_wait(still_stage: Stage, still_clock: FakeClock) -> None:
    await accused(still_stage, still_clock, *KEYS)
    here, there = Instance(still_stage), Instance(still_stage, "there")
    (first,) = await here.round()
    (second,) = await there.round()
    assert first != second
    await here.close()
    await there.close()


async def test_one_that_is_gone_makes_room_for_the_next(still_stage: Stage, still_clock: FakeClock) -> None:
    """Those that wait may be taken elsewhere, or cancelled: whoever is still there gets its turn at once."""
    await accused(still_stage, still_clock, *KEYS)
    here = Instance(still_stage)
    (first,) = await here.round()
    *gone, last = (key for key in KEYS if key != first)
    await still_stage.store.cancel([Identity("work", key) for key in gone])
    await here.end(first)
    assert await here.round() == [last]
    await here.close()


async def test_everybody_else_runs_beside_a_suspect(still_stage: Stage, still_clock: FakeClock) -> None:
    await accused(still_stage, still_clock, "a", "b")
    await still_stage.schedule("x", "y")
    here = Instance(still_stage)
    at_work = await here.round()
    assert at_work[1:] == ["x", "y"]
    assert at_work[0] in ("a", "b")
    await here.close()


async def test_one_crash_makes_no_suspect(still_stage: Stage, still_clock: FakeClock) -> None:
    await accused(still_stage, still_clock, *KEYS, crashes=1)
    assert MAX_CRASHES - SUSPECT_CRASHES == 1
    here = Instance(still_stage)
    assert await here.round() == list(KEYS)
    await here.close()
