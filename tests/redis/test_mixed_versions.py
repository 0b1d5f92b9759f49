"""Two versions of Rota on one Redis: the older one undoes nothing of the newer one's, and what it wrote is found."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import cast

import pytest
from msgspec.structs import replace
from tests.opening import opened
from tests.records import field_of, put_field

from rota.clock import HOUR, MINUTE
from rota.core.outcome import Answer, TouchOutcome
from rota.core.task import Activity, TaskStatus, Transition
from rota.core.task_type import RetryPolicy, TaskType
from rota.stores import open_store
from rota.stores.base import Store
from rota.stores.redis import RedisStore
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import World
from rota.testing.redis_servers import RedisServer

TASK = "scheduler:task:{work}:k"
TYPE = "scheduler:type:{work}"
FIELD, VALUE = "tide", "high"
"""A field that a version to come will write."""


@pytest.fixture
async def store(redis_url: str, clock: FakeClock) -> AsyncIterator[Store]:
    async with opened(open_store(redis_url, clock)) as store:
        yield store


@pytest.fixture
async def other(redis_url: str, clock: FakeClock, store: Store) -> AsyncIterator[Store]:
    """A second instance on the same keys."""
    assert store
    async with opened(open_store(redis_url, clock)) as store:
        yield store


class Life:
    """One task through every verb, and a field in its record that this version does not know."""

    def __init__(self, world: World, server: RedisServer) -> None:
        self.world = world
        self._server = server
        self._last = "schedule"

    def mark(self) -> None:
        put_field(self._server, "work", "k", FIELD, VALUE)

    def check(self, step: str) -> None:
        found = field_of(self._server, "work", "k", FIELD)
        assert found == VALUE, f"the unknown field did not survive {step} (after {self._last})"
        self._last = step

    async def asked(self, transition: Transition) -> None:
        assert (await self.world.apply(transition)).answer is Answer.OK, transition
        self.check(transition)

    async def ran(self, transition: Transition) -> None:
        """Claimed, renewed, touched and settled."""
        if (await self.world.there()).scheduled_at > self.world.now:
            await self.asked(Transition.RUN_NOW)
        task = await self.world.claim_one()
        self.check("claim")
        assert self.world.renew(task, progress="half").answer is Answer.OK
        self.check("renew")
        assert (await self.world.settle(task, transition)).answer is Answer.OK
        self.check(transition)


@pytest.mark.parametrize("recurring", [False, True], ids=["plain", "recurring"])
async def test_unknown_fields_survive_every_verb(
    store: Store, redis: RedisServer, clock: FakeClock, *, recurring: bool
) -> None:
    world = World(store, clock)
    await world.type(max_retries=9, retry=RetryPolicy(base_ms=0, max_ms=0), on_busy="ignore")
    await (world.series() if recurring else world.schedule())
    life = Life(world, redis)
    life.mark()
    assert (await world.touch()).outcome is TouchOutcome.COALESCED
    life.check("touch")
    assert (await world.update(payload="new " * 30)).answer is Answer.OK
    life.check("update")
    for transition in (Transition.RETRY, Transition.SNOOZE, Transition.RELEASE):
        await life.ran(transition)
    for transition in (Transition.PAUSE, Transition.RESUME, Transition.RUN_NOW):
        await life.asked(transition)
    taken = await world.claimed(claim_id="lost-reply")
    assert len(taken.tasks) == 1
    await store.abandon("i1", "lost-reply", now=world.now)
    life.check("abandon")
    await world.crash()
    life.check("reap")
    await life.asked(Transition.CANCEL)
    assert (await world.schedule()).task is not None
    life.check("schedule over a finished task")


async def test_unknown_fields_survive_the_ends_of_a_task(store: Store, redis: RedisServer, clock: FakeClock) -> None:
    world = World(store, clock)
    await world.type(max_retries=0)
    life = Life(world, redis)
    await world.schedule()
    life.mark()
    await life.ran(Transition.FAIL)
    await life.asked(Transition.REDRIVE)
    await life.ran(Transition.DISCARD)
    await life.asked(Transition.RUN_NOW)
    await life.ran(Transition.COMPLETE)
    await life.asked(Transition.RUN_NOW)
    await life.asked(Transition.END)


async def test_a_purged_task_takes_its_unknown_fields_along(store: Store, redis: RedisServer, clock: FakeClock) -> None:
    world = World(store, clock)
    await world.type()
    await world.schedule()
    put_field(redis, "work", "k", FIELD, VALUE)
    await world.apply(Transition.CANCEL)
    assert (await world.apply(Transition.PURGE)).answer is Answer.OK
    assert redis.ask("EXISTS", TASK) == 0


async def test_an_older_configuration_never_overwrites_a_newer_one(
    store: Store, other: Store, clock: FakeClock
) -> None:
    newer = TaskType(name="work", version=2, interval_ms=HOUR)
    older = replace(newer, version=1, interval_ms=MINUTE)
    await store.put_types([newer])
    assert [record.task_type for record in await other.put_types([older])] == [newer]
    assert [record.task_type for record in await other.list_types()] == [newer]
    touched = (await other.touch([Activity(task_type="work", key="k", user_id="u1")], now=clock.now()))[0]
    assert touched.scheduled_at == clock.now() + HOUR, "the policy is read from the record, never sent by the caller"
    await store.put_types([replace(newer, version=3, interval_ms=2 * HOUR)])
    assert (await other.list_types())[0].task_type.interval_ms == 2 * HOUR


async def test_settings_of_a_version_to_come_are_kept(store: Store, other: Store, redis: RedisServer) -> None:
    await store.put_types([TaskType(name="work", version=7)])
    await store.override_type("work", {"enabled": False})
    redis.ask("HSET", TYPE, FIELD, VALUE)
    config = cast("dict[str, object]", json.loads(str(redis.ask("HGET", TYPE, "config"))))
    redis.ask("HSET", TYPE, "config", json.dumps({**config, FIELD: VALUE}))
    await other.put_types([TaskType(name="work", version=6)])
    await other.override_type("work", {"enabled": None})
    kept = cast("dict[str, object]", json.loads(str(redis.ask("HGET", TYPE, "config"))))
    assert (kept[FIELD], redis.ask("HGET", TYPE, FIELD)) == (VALUE, VALUE)
    assert (await other.list_types())[0].enabled


def _as_the_first_version_left_it(redis: RedisServer) -> None:
    """It kept no lists of owners' tasks, of schedules and of all that are parked, and took turns under another name."""
    names = cast("list[str]", redis.ask("KEYS", "scheduler:owned:*"))
    redis.ask("DEL", "scheduler:schedules:{work}", "scheduler:parked:{work}", *names)
    redis.ask("HDEL", "scheduler:meta", "indexes")
    redis.ask("SET", "scheduler:turn:reconciler", "an-older-instance", "PX", 600_000)


async def test_what_an_older_version_wrote_is_found_before_and_after_the_first_pass(
    redis_url: str, redis: RedisServer, clock: FakeClock
) -> None:
    old = RedisStore(redis_url, clock=clock)
    await old.open()
    world = World(old, clock)
    await world.type()
    for number in range(3):
        await world.series(f"series-{number}", owner="ann")
    await world.schedule("owned", owner="ben", scheduled_at=clock.now() + HOUR)
    for number in range(3):
        await world.schedule(f"serial-{number}", serial="one")
    assert len(await world.claim(5)) == 1
    await old.close()
    _as_the_first_version_left_it(redis)

    new = RedisStore(redis_url, clock=clock)
    await new.open()
    world = World(new, clock)
    series = [f"series-{number}" for number in range(3)]

    async def check_lists() -> None:
        assert [task.key for task in await world.all_tasks(owner="ann")] == series
        assert [task.key for task in await world.all_tasks(owner="ben")] == ["owned"]
        assert [task.key for task in await world.all_tasks(schedules=True)] == series
        pending = [task.key for task in await world.all_tasks(status=TaskStatus.PENDING)]
        assert pending == ["owned", "serial-1", "serial-2", *series]

    await check_lists()
    assert await new.take_turn("reconciler", 1_000), "an older version's pass must not put off the first one"
    assert (await new.reconcile()).entered == len(["owned", *series]) + len(series) + len(["serial-1", "serial-2"])
    await check_lists()
    assert (await new.next_due_by_type())["work"] == clock.now()
    assert (await new.reconcile()).total == 0
    redis.ask("DEL", "scheduler:schedules:{work}")
    assert await world.all_tasks(schedules=True) == [], "after the pass the index is what is asked"
    await new.close()
