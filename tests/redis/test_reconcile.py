"""An index destroyed by hand comes back: the hash is the truth, and the reconciler restores what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest
from tests.opening import opened

from rota.core.task import NewTask, TaskStatus, Transition
from rota.stores.redis import RedisStore
from rota.stores.redis.reconcile import PAGE
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import World
from rota.testing.redis_servers import RedisServer

PENDING, RUNNING, PARKED, HIGH = 30, 20, 15, 10
INDEXES = (
    "scheduler:queue:{work}",
    "scheduler:queue:{work}:9",
    "scheduler:running:{work}",
    "scheduler:parked:{work}:s",
    "scheduler:paused:{work}",
    "scheduler:dead:{work}",
    "scheduler:keys:{work}",
    "scheduler:owner:{work}:o1",
    "scheduler:counts:{work}",
)


@pytest.fixture
async def store(redis_url: str, clock: FakeClock) -> AsyncIterator[RedisStore]:
    async with opened(RedisStore(redis_url, clock=clock)) as store:
        yield store


@pytest.fixture
async def world(store: RedisStore, clock: FakeClock) -> World:
    """Tasks in every state: running and parked ones, dead and paused ones, two lanes."""
    world = World(store, clock)
    await world.type(max_retries=0)
    for number in range(RUNNING):
        await world.schedule(f"running-{number:02}")
    assert len(await world.claim(RUNNING)) == RUNNING
    await world.schedule("holder", serial="s")
    assert (await world.claim_one()).key == "holder"
    for number in range(PARKED):
        await world.schedule(f"parked-{number:02}", serial="s")
    assert await world.claim(PARKED) == []
    for key in ("paused", "dead"):
        await world.schedule(key)
    await world.apply(Transition.PAUSE, "paused")
    await world.run(Transition.FAIL)
    for number in range(PENDING):
        await world.schedule(f"pending-{number:02}", owner="o1")
    for number in range(HIGH):
        await world.schedule(f"high-{number:02}", priority=9)
    return world


def contents(redis: RedisServer, index: str) -> object:
    match redis.ask("TYPE", index):
        case "zset":
            return redis.ask("ZRANGE", index, 0, -1, "WITHSCORES")
        case "set":
            return redis.ask("SORT", index, "ALPHA")
        case "hash":
            names = ("pending", "running", "paused", "completed", "failed", "cancelled")
            return [str(number or 0) for number in cast("list[str | None]", redis.ask("HMGET", index, *names))]
        case _:
            return None


async def drained(world: World) -> list[str]:
    """Work off everything that is due, including what is parked and un-parked on the way; the keys."""
    done: list[str] = []
    while tasks := await world.claim(200):
        for task in tasks:
            await world.settle(task)
            done.append(task.key)
    return sorted(done)


def keys(kind: str, size: int) -> list[str]:
    return [f"{kind}-{number:02}" for number in range(size)]


@pytest.mark.parametrize("index", INDEXES)
async def test_a_destroyed_index_is_restored(index: str, store: RedisStore, world: World, redis: RedisServer) -> None:
    before = contents(redis, index)
    assert redis.ask("DEL", index) == 1, f"{index} was not there: the layout has changed"
    assert (await store.reconcile()).total > 0
    assert contents(redis, index) == before
    assert (await store.reconcile()).total == 0, "there must be nothing left to repair"


async def test_nothing_is_lost_with_queue_and_running_and_parked_gone(
    store: RedisStore, world: World, redis: RedisServer
) -> None:
    """After one pass everything runs: what waited, what was parked, and what a dead instance was running."""
    redis.ask("DEL", *INDEXES)
    await store.reconcile()
    await world.tick_past_lease()
    ran = await drained(world)
    assert ran == sorted(
        [*keys("running", RUNNING), *keys("parked", PARKED), *keys("pending", PENDING), *keys("high", HIGH), "holder"]
    )
    await world.check_counts()


async def test_a_place_of_which_no_hash_knows_is_given_up(store: RedisStore, world: World, redis: RedisServer) -> None:
    redis.ask("ZADD", "scheduler:queue:{work}", 1, "nobody")
    redis.ask("ZADD", "scheduler:queue:{work}", 1, "paused")
    redis.ask("ZADD", "scheduler:running:{work}", 1, "pending-00")
    assert (await store.reconcile()).left == 3
    assert redis.ask("ZSCORE", "scheduler:queue:{work}", "nobody") is None
    assert await world.status("paused") is TaskStatus.PAUSED
    await world.check_counts()


async def test_a_pass_beside_running_work_repairs_nothing_and_harms_nothing(
    store: RedisStore, world: World, redis_url: str, clock: FakeClock
) -> None:
    other = RedisStore(redis_url, clock=clock)
    await other.open()
    passing = asyncio.create_task(_pass_again_and_again(other))
    ran = await drained(world)
    for number in range(100):
        await world.schedule(f"more-{number:02}")
    ran += await drained(world)
    passing.cancel()
    await asyncio.wait([passing])
    await other.close()
    assert len(ran) == len(set(ran)) == PENDING + HIGH + 100
    await world.check_counts()
    assert (await store.reconcile()).total == 0


async def _pass_again_and_again(store: RedisStore) -> None:
    while True:
        await store.reconcile()


async def test_a_pass_rests_after_each_page_also_of_one_big_index(
    store: RedisStore, world: World, redis: RedisServer
) -> None:
    await world.store.schedule([NewTask(task_type="work", key=f"many-{number:04}") for number in range(3 * PAGE)])
    rests = 0

    async def rest() -> None:
        nonlocal rests
        rests += 1

    assert (await store.reconcile(rest)).total == 0
    indexes_with_all = len(["queue", "keys"])
    assert rests >= 3 * indexes_with_all
