"""Two stores on one database, as two instances have them; and one after the other, as a restart has them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import pytest

from rota.clock import MINUTE
from rota.core.history import Resolution, of_run
from rota.core.outcome import Answer, ScheduleOutcome, TouchOutcome
from rota.core.task import NewTask, TaskStatus, Transition
from rota.errors import StoreUnavailable
from rota.stores import open_store
from rota.stores.redis import RedisStore
from rota.testing import until
from rota.testing.clock import FakeClock
from rota.testing.conformance.erase import erase_all
from rota.testing.conformance.world import WORK, World


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
async def worlds(url: str, clock: FakeClock) -> AsyncIterator[tuple[World, World]]:
    stores = [open_store(url, clock) for _ in range(2)]
    for store in stores:
        await store.open()
    first, second = (World(store, clock) for store in stores)
    await first.type()
    yield first, second
    for store in stores:
        await store.close()


async def test_a_restart_loses_nothing(url: str, clock: FakeClock) -> None:
    before = open_store(url, clock)
    await before.open()
    world = World(before, clock)
    await world.type(priority=7)
    for key in ("running", "waiting"):
        await world.schedule(key, payload="p", priority=3)
    claimed = await world.claim_one()
    kept = (await world.all_tasks(), await world.counts(), await before.list_types())
    await before.close()

    after = open_store(url, clock)
    await after.open()
    world = World(after, clock)
    assert (await world.all_tasks(), await world.counts(), await after.list_types()) == kept
    second = await world.claim_one()
    assert second.token > claimed.token
    assert (await world.settle(claimed)).answer is Answer.OK
    await after.close()


async def test_what_one_makes_the_other_runs(worlds: tuple[World, World]) -> None:
    first, second = worlds
    for priority in (0, 5, 9):
        await first.schedule(f"k{priority}", priority=priority)
    assert [task.key for task in await second.claim(5)] == ["k9", "k5", "k0"]
    assert await first.claim(5) == []


async def test_both_claim_and_share_nothing(worlds: tuple[World, World]) -> None:
    first, _ = worlds
    keys = [f"k{number:03}" for number in range(100)]
    await first.store.schedule([NewTask(task_type=WORK, key=key) for key in keys], now=first.now)
    ran: list[str] = []

    async def work(world: World, instance: str) -> None:
        # A claim passes over what another one holds: empty-handed is not the end while something is pending.
        while (await world.counts()).pending:
            for task in await world.claim(7, instance=instance):
                ran.append(task.key)
                assert (await world.settle(task)).answer is Answer.OK

    await asyncio.gather(*(work(world, f"i{number}") for number, world in enumerate(worlds)))
    assert sorted(ran) == keys
    await first.check_counts()


async def test_both_make_one_identity_and_it_is_made_once(worlds: tuple[World, World]) -> None:
    for number in range(10):
        answers = await asyncio.gather(*(world.schedule(f"k{number}") for world in worlds for _ in range(3)))
        assert [answer.outcome for answer in answers].count(ScheduleOutcome.CREATED) == 1
    await worlds[0].check_counts()


async def test_one_serial_over_both(worlds: tuple[World, World]) -> None:
    first, _ = worlds
    keys = [f"k{number:02}" for number in range(12)]
    for key in keys:
        await first.schedule(key, serial="s")
    running = 0
    ran: list[str] = []

    async def work(world: World) -> None:
        nonlocal running
        while (await world.counts()).pending:
            for task in await world.claim(3):
                running += 1
                assert running == 1, "two tasks of one serial run at once"
                ran.append(task.key)
                running -= 1
                await world.settle(task)

    await asyncio.gather(*map(work, worlds))
    assert sorted(ran) == keys


async def test_one_bucket_over_both(worlds: tuple[World, World]) -> None:
    takes = [world.store.take("b", 1, rate=1.0, burst=5, now=world.now) for world in worlds for _ in range(10)]
    assert sum(taken.granted for taken in await asyncio.gather(*takes)) == 5


async def test_one_wakes_the_other(worlds: tuple[World, World]) -> None:
    first, second = worlds
    numbers = count()

    async def hears() -> bool:
        await first.schedule(f"k{next(numbers)}")
        return await second.store.wait(100)

    # A store is open before its listener has its connection: until then nobody is woken, only the tick helps.
    await until(hears, "the other one listens")
    while await second.store.wait(100):
        pass
    waiting = asyncio.ensure_future(second.store.wait(MINUTE))
    await asyncio.sleep(0)
    await first.schedule("k")
    assert await waiting is True


async def test_a_type_that_one_switches_off_is_off_for_the_other(worlds: tuple[World, World]) -> None:
    first, second = worlds
    await first.schedule("k")
    await first.store.override_type(WORK, {"enabled": False})
    assert await second.claim() == []
    assert (await second.schedule("l")).outcome is ScheduleOutcome.DISABLED


async def test_one_reaps_what_the_other_left(worlds: tuple[World, World]) -> None:
    first, second = worlds
    await first.schedule("k")
    late = await first.claim_one(instance="gone")
    assert [task.key for task in await second.tick_past_lease()] == ["k"]
    await second.run(Transition.COMPLETE)
    assert (await first.settle(late)).answer is Answer.STALE
    assert await first.status("k") is TaskStatus.COMPLETED


async def test_a_closed_store_says_so(worlds: tuple[World, World]) -> None:
    first, _ = worlds
    await first.store.close()
    with pytest.raises(StoreUnavailable, match="not open"):
        await first.schedule("k")
    with pytest.raises(StoreUnavailable, match="not open"):
        await first.all_tasks()


async def test_both_add_to_the_history_and_lose_nothing(worlds: tuple[World, World]) -> None:
    one = of_run(WORK, "user_activity", worlds[0].now, reason=None, late_ms=1, took_ms=1)
    calls = [world.store.record([one], now=world.now) for _ in range(8) for world in worlds]
    await asyncio.gather(*calls)
    for resolution in Resolution:
        assert [each.success for each in await worlds[1].store.history(resolution, 0)] == [16]


async def test_both_erase_at_once(worlds: tuple[World, World]) -> None:
    first, second = worlds
    for number in range(12):
        await first.schedule(f"k{number}", user_id="u1")
        await first.run()
    ends = await asyncio.gather(erase_all(first, "u1", 3), erase_all(second, "u1", 3))
    assert all(each.done_at is not None for each in ends)
    assert await first.all_tasks() == []
    assert await first.runs(None) == []
    assert await second.store.erasures() == []


async def test_an_erasure_among_touches_and_runs_leaves_everything_whole(worlds: tuple[World, World]) -> None:
    """Whatever is erased under the hands of others is erased whole, and they are told; the rest is as it should be."""
    first, second = worlds
    await first.type(interval_ms=0)
    keys = [f"u1:d{number}" for number in range(6)]
    over = asyncio.Event()

    async def be_active() -> None:
        for number in range(48):
            await first.touch(keys[number % len(keys)], user_id="u1")
        over.set()

    async def work() -> None:
        while not over.is_set() or (await second.counts()).pending:
            for task in await second.claim(2):
                assert (await second.settle(task)).answer in (Answer.OK, Answer.STALE)

    async def erase() -> None:
        while not over.is_set():
            await second.store.erase_user("u1", limit=2, now=second.now)

    await asyncio.gather(be_active(), work(), erase())
    await first.check_counts()
    assert (await erase_all(second, "u1")).done_at is not None
    assert await first.runs(None) == []
    assert (await first.store.export()).items == []
    assert (await first.touch(keys[0], user_id="u1")).outcome is TouchOutcome.CREATED
    if isinstance(first.store, RedisStore):
        assert (await first.store.reconcile()).total == 0, "every index says what the hashes say"


async def test_an_override_reaches_the_other_at_once(worlds: tuple[World, World]) -> None:
    first, second = worlds
    await second.schedule("a")
    await first.store.override_type(WORK, {"frozen": True, "max_pending": 1})
    assert await second.claim() == []
    assert (await second.schedule("b")).outcome is ScheduleOutcome.FULL
    await first.store.override_type(WORK, {"frozen": None})
    assert (await second.claim_one()).key == "a"
