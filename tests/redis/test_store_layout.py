"""What lies in Redis: the names, short records, nothing left behind, and nothing of a newer major version."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import pytest
from tests.opening import opened

from rota.clock import DAY, SECOND
from rota.core.bucket import rate_bucket, start_bucket
from rota.core.task import Activity, Identity, NewTask, Transition
from rota.core.task_type import RateLimit, TaskType
from rota.errors import SchemaMismatch
from rota.stores.base import TaskQuery
from rota.stores.redis import RedisStore
from rota.stores.redis.codec import INLINE_BYTES
from rota.stores.redis.keys import Keys
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import WORK, World
from rota.testing.redis_servers import RedisServer

MANY = 2_000


@pytest.fixture
async def store(redis_url: str, clock: FakeClock) -> AsyncIterator[RedisStore]:
    async with opened(RedisStore(redis_url, clock=clock)) as store:
        yield store


@pytest.fixture
def world(store: RedisStore, clock: FakeClock) -> World:
    return World(store, clock)


def keys_of(server: RedisServer) -> set[str]:
    return set(cast("list[str]", server.ask("KEYS", "*")))


async def test_the_names_of_the_keys(world: World, redis: RedisServer) -> None:
    await world.type()
    await world.touch("u1:phone:default")
    await world.schedule("rush", priority=9)
    assert keys_of(redis) == {
        "scheduler:meta",
        "scheduler:task_types",
        "scheduler:type:{work}",
        "scheduler:task:{work}:u1:phone:default",
        "scheduler:task:{work}:rush",
        "scheduler:queue:{work}",
        "scheduler:queue:{work}:9",
        "scheduler:lanes:{work}",
        "scheduler:keys:{work}",
        "scheduler:counts:{work}",
    }
    assert redis.ask("TYPE", "scheduler:task:{work}:u1:phone:default") == "string"


async def test_another_prefix_is_another_store(
    redis: RedisServer, redis_url: str, clock: FakeClock, world: World
) -> None:
    await world.type()
    await world.schedule("k")
    other = RedisStore(f"{redis_url}?prefix=other:", clock=clock)
    await other.open()
    assert await other.list_types() == []
    assert (await other.find(TaskQuery())).items == []
    await other.put_types([TaskType(name=WORK)])
    await other.schedule([NewTask(task_type=WORK, key="mine")], now=clock.now())
    assert [task.key for task in await world.all_tasks()] == ["k"]
    await other.close()
    redis.ask("DEL", *(key for key in keys_of(redis) if key.startswith("other:")))


async def test_a_newer_major_version_is_refused(redis: RedisServer, redis_url: str) -> None:
    redis.ask("HSET", "scheduler:meta", "schema", 3)
    store = RedisStore(redis_url)
    with pytest.raises(SchemaMismatch, match="newer Rota"):
        await store.open()


async def test_a_large_payload_lies_beside_the_record(world: World, redis: RedisServer) -> None:
    await world.type()
    beside = "scheduler:payload:{work}:k"
    for payload in ("x" * INLINE_BYTES, "", "x" * (INLINE_BYTES + 1), "é" * INLINE_BYTES):
        await world.schedule("k", payload=payload)
        assert (await world.there()).payload == payload
        large = f"{payload}y" * 80
        await world.update("k", payload=large)
        assert redis.ask("EXISTS", beside) == 1
        assert (await world.claim_one()).payload == large
        await world.settle(await world.there())
    await world.schedule("k", payload="small")
    assert redis.ask("EXISTS", beside) == 0
    await world.schedule("k2", payload="x" * 500)
    await world.apply(Transition.CANCEL, "k2")
    await world.apply(Transition.PURGE, "k2")
    assert redis.ask("EXISTS", "scheduler:payload:{work}:k2") == 0


async def test_a_year_later_nothing_is_left(world: World, redis: RedisServer) -> None:
    """Whatever tasks wrote, of whatever kind, goes with them: what stays belongs to the type."""
    await world.type(max_retries=0, task_ttl_ms=DAY, dead_ttl_ms=DAY)
    await world.schedule("plain", payload="x" * 500, user_id="u1", owner="o")
    await world.touch("u1:phone")
    await world.series("series", max_runs=1)
    await world.schedule("a", serial="s")
    await world.schedule("b", serial="s", priority=9)
    await world.schedule("expiring", scheduled_at=world.now + 10 * DAY, expires_at=world.now + DAY)
    for _ in range(4):
        world.clock.advance("1h")
        for number, task in enumerate(await world.claim(10)):
            await world.settle(task, Transition.FAIL if number else Transition.COMPLETE)
    for _ in range(3):
        world.clock.advance("120d")
        await world.prune()
    assert await world.all_tasks() == []
    assert keys_of(redis) <= {
        "scheduler:meta",
        "scheduler:task_types",
        "scheduler:type:{work}",
        "scheduler:lanes:{work}",
        "scheduler:seq:{work}",
        "scheduler:counts:{work}",
        "scheduler:runs:{work}",
    }


async def test_six_hundred_bytes_a_task(store: RedisStore, redis: RedisServer, clock: FakeClock) -> None:
    """A first-time task with plain ids, in all: record, queue and key index."""
    await store.put_types([TaskType(name="memory_compression")])
    before = _used(redis)
    for start in range(0, MANY, 200):
        users = [f"user{number:07}" for number in range(start, start + 200)]
        activities = [
            Activity(
                task_type="memory_compression",
                key=f"{user}:phone:default",
                user_id=user,
                device_id="phone",
                agent_id="default",
            )
            for user in users
        ]
        await store.touch(activities, now=clock.now())
    assert (_used(redis) - before) / MANY <= 620, "600 at a million tasks; tables that grow by doubling cost a little"


def _used(server: RedisServer) -> int:
    return int(str(cast("dict[str, object]", server.ask("INFO", "memory"))["used_memory"]))


async def test_a_recurring_task_keeps_its_last_rows(world: World, redis: RedisServer) -> None:
    """A busy neighbour pushes its rows out of the type's log; its own history still has them."""
    await world.type()
    await world.series("series")
    for _ in range(3):
        world.clock.advance("1h")
        await world.run()
    assert len(await world.runs("series")) == 3
    redis.ask("DEL", "scheduler:runs:{work}")
    assert len(await world.runs("series")) == 3
    await world.apply(Transition.CANCEL, "series")
    await world.apply(Transition.PURGE, "series")
    assert redis.ask("EXISTS", "scheduler:history:{work}:series") == 0


async def test_everything_of_one_user(world: World) -> None:
    """By the lexical range of the user's keys, and by name where a task has a key of its own; nobody else's."""
    await world.type()
    for key, user in (("u1:phone", "u1"), ("u1", "u1"), ("u12:phone", "u12"), ("u1;x", "other"), ("brief", "u1")):
        await world.schedule(key, user_id=user)
    await world.schedule("u1:tablet")
    assert [task.key for task in await world.all_tasks(user_id="u1")] == ["brief", "u1", "u1:phone"]
    await world.store.pause([Identity(WORK, "brief")])
    assert [task.key for task in await world.all_tasks(user_id="u1", limit=1)] == ["brief", "u1", "u1:phone"]


async def test_a_bucket_is_forgotten_only_when_all_that_it_owes_is_paid_off(world: World, redis: RedisServer) -> None:
    """One that is not there counts as full."""
    await world.type(rate_limit=RateLimit(rate=0.01, burst=1), start_limit=RateLimit(rate=0.1, burst=1))
    await world.schedule("k")
    await world.series("s")
    for name, rate, key in (("api", 0.01, "{api}"), ("type:work", 0.01, "{work}:own")):
        await world.store.take(name, 10_000, rate=rate, burst=1, owe=True, now=world.now)
        assert cast("int", redis.ask("PTTL", f"scheduler:bucket:{key}")) > 1_000_000 * SECOND
    world.clock.advance("2h")
    assert await world.claim(5) == [], "by a unit of work, for one of them recurs"
    assert cast("int", redis.ask("PTTL", "scheduler:bucket:{work}:own")) > 1_000_000 * SECOND
    await world.apply(Transition.CANCEL, "s")
    assert await world.claim(5) == [], "by a script"
    assert cast("int", redis.ask("PTTL", "scheduler:bucket:{work}:own")) > 1_000_000 * SECOND
    assert 0 < cast("int", redis.ask("PTTL", "scheduler:bucket:{work}:starts")) <= DAY


async def test_the_buckets_of_a_type_lie_beside_its_tasks() -> None:
    keys = Keys()
    assert keys.bucket("api") == "scheduler:bucket:{api}"
    assert keys.bucket("api:starts") == "scheduler:bucket:{api:starts}"
    assert keys.bucket(rate_bucket("work")) == "scheduler:bucket:{work}:own"
    assert keys.bucket(start_bucket("work")) == "scheduler:bucket:{work}:starts"
