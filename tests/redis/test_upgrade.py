"""What the first layout holds, brought to this one in place: everything is there, and everything goes on.

`released_layout.json` holds every key of a Redis on which version 1 of the layout was at work when it was stopped:
tasks in every state, a series that waits and one that runs, a serial with a holder and one that is parked, wishes and
activity during runs, a dead letter, and a completion that has arrived for a type that waits for another one, too. Its
tokens are a plain counter's, 1 to 11.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis.exceptions import ResponseError
from tests.opening import opened

from rota.clock import HOUR, MINUTE
from rota.core.outcome import Answer
from rota.core.task import Identity, Task, TaskStatus, Transition
from rota.core.token import floor_at
from rota.errors import IllegalTransition, SchemaMismatch, StoreUnavailable
from rota.stores.base import Beat
from rota.stores.redis import RedisStore
from rota.stores.redis.scripts import Scripts
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import World
from rota.testing.redis_servers import RedisServer

RELEASED: Mapping[str, Any] = json.loads((Path(__file__).parent / "released_layout.json").read_text())
TASKS = [key for key in RELEASED["keys"] if key.startswith("scheduler:task:")]
LAST_TOKEN = 11
RUNNING = ["dirty", "holder", "running", "running-series", "want-cancel", "want-pause"]


def _put(server: RedisServer, key: str, kind: str, value: Any) -> None:
    """A key as it was."""
    match kind:
        case "hash":
            server.ask("HSET", key, *(text for pair in value.items() for text in pair))
        case "string":
            server.ask("SET", key, value)
        case "set":
            server.ask("SADD", key, *value)
        case "zset":
            server.ask("ZADD", key, *(part for member, score in value for part in (score, member)))
        case _:
            for row, fields in value:
                server.ask("XADD", key, row, *(text for pair in fields.items() for text in pair))


@pytest.fixture
def old(redis: RedisServer, redis_url: str, clock: FakeClock) -> RedisServer:
    """A minute after the old version was stopped."""
    assert redis_url
    for key, found in RELEASED["keys"].items():
        _put(redis, key, found["type"], found["value"])
    clock.set(RELEASED["now"] + MINUTE)
    return redis


@pytest.fixture
async def world(old: RedisServer, redis_url: str, clock: FakeClock) -> AsyncIterator[World]:
    assert old
    store = RedisStore(redis_url, clock=clock)
    assert await store.upgrade() == len(TASKS)
    assert await store.upgrade() == 0, "once is enough"
    async with opened(RedisStore(redis_url, clock=clock)) as store:
        yield World(store, clock)


async def _running(world: World) -> dict[str, Task]:
    return {task.key: task for task in await world.all_tasks(status=TaskStatus.RUNNING)}


async def test_everything_is_there(world: World) -> None:
    tasks = {task.key: task for task in await world.all_tasks()}
    by_status = {status: sorted(key for key, task in tasks.items() if task.status is status) for status in TaskStatus}
    assert by_status == {
        TaskStatus.PENDING: ["later", "parked", "pending", "series", "urgent"],
        TaskStatus.RUNNING: RUNNING,
        TaskStatus.COMPLETED: ["completed"],
        TaskStatus.FAILED: ["failed"],
        TaskStatus.PAUSED: ["paused"],
        TaskStatus.CANCELLED: ["cancelled"],
    }
    assert tasks["pending"].payload == json.dumps("q" * 100)
    assert tasks["parked"].parked
    assert (tasks["failed"].reason, tasks["failed"].error) == ("error", "it broke")
    assert tasks["running"].token < LAST_TOKEN
    assert len(await world.runs(None)) == 4
    await world.check_counts()
    assert isinstance(world.store, RedisStore)
    assert (await world.store.reconcile()).total == 0, "the layout is the same: nothing is to be repaired"


async def test_what_runs_is_settled_with_its_old_token(world: World) -> None:
    running = await _running(world)
    assert world.renew(running["running"]).answer is Answer.OK
    assert world.renew(running["want-cancel"]).answer is Answer.CANCEL
    for key, task in running.items():
        assert (await world.settle(task)).answer is Answer.OK, key
    after = {task.key: task for task in await world.all_tasks()}
    assert {key: after[key].status for key in RUNNING} == {
        "dirty": TaskStatus.PENDING,
        "holder": TaskStatus.COMPLETED,
        "running": TaskStatus.COMPLETED,
        "running-series": TaskStatus.PENDING,
        "want-cancel": TaskStatus.CANCELLED,
        "want-pause": TaskStatus.COMPLETED,
    }
    assert (await world.settle(running["running"])).answer is Answer.ALREADY
    assert not after["parked"].parked, "its serial is free"
    await world.check_counts()


async def test_what_waits_is_claimed_with_a_higher_token(world: World) -> None:
    await world.settle((await _running(world))["holder"])
    await world.apply(Transition.RESUME, "paused")
    await world.apply(Transition.REDRIVE, "failed")
    await world.apply(Transition.RUN_NOW, "completed")
    world.clock.advance(2 * HOUR / 1_000)
    claimed = {task.key: task.token for task in await world.claim(20)}
    due = ["completed", "failed", "later", "parked", "paused", "pending", "series", "urgent"]
    assert sorted(claimed) == due
    assert len(set(claimed.values())) == len(due)
    assert min(claimed.values()) > floor_at(world.now) > LAST_TOKEN
    for task in (await _running(world)).values():
        if task.key in claimed:
            assert (await world.settle(task)).answer is Answer.OK
    await world.check_counts()


async def test_what_a_dead_worker_of_the_old_version_ran_is_taken_over(world: World) -> None:
    reaped = await world.tick_past_lease()
    assert sorted({task.key for task in reaped}) == RUNNING
    again = {task.key: task for task in await world.claim(20)}
    assert again["running"].token > floor_at(world.now)


async def test_what_has_arrived_for_a_follower_still_counts(world: World) -> None:
    """`work` completed before the upgrade, `other` completes after it: then the one that waits for both is made."""
    await world.schedule("completed", "other")
    await world.settle(await world.claim_one("other"))
    await world.pump()
    (follower,) = await world.store.get([Identity("next", "completed")])
    assert follower is not None
    assert follower.status is TaskStatus.PENDING


# --- nobody is on both sides ---


async def test_nothing_is_opened_before_it_is_upgraded(old: RedisServer, redis_url: str, clock: FakeClock) -> None:
    assert old
    with pytest.raises(SchemaMismatch, match=r"written by an older Rota.*rota db upgrade"):
        await RedisStore(redis_url, clock=clock).open()


async def test_an_upgrade_waits_until_nobody_is_at_work(old: RedisServer, redis_url: str, clock: FakeClock) -> None:
    beat = msgspec.json.encode(Beat(instance="old", host="one", pid=7, lease_ms=10_000)).decode()
    old.ask("HSET", "scheduler:instances", "old", f'{{"beat":{beat},"seen_at":{clock.now() - 5_000}}}')
    store = RedisStore(redis_url, clock=clock)
    with pytest.raises(IllegalTransition, match=r"1 instances work on .*one:7.*Nothing was changed"):
        await store.upgrade()
    assert old.ask("HGET", "scheduler:meta", "schema") == "1"
    clock.advance("1m")
    assert await store.upgrade() == len(TASKS)


@pytest.mark.parametrize("cut_after", [0, 1, 4, 10])
async def test_an_upgrade_that_was_cut_off_is_taken_up_again(
    old: RedisServer, redis_url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, cut_after: int
) -> None:
    """Meanwhile nobody opens the store: neither version would find everything."""
    asked = 0
    run = Scripts.run

    async def cut_off(scripts: Scripts, name: str, *args: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked > cut_after:
            raise StoreUnavailable("The connection was cut.")
        return await run(scripts, name, *args)

    monkeypatch.setattr(Scripts, "run", cut_off)
    monkeypatch.setattr("rota.stores.redis.upgrade.PAGE", 2)
    store = RedisStore(redis_url, clock=clock)
    with pytest.raises(StoreUnavailable):
        await store.upgrade()
    monkeypatch.setattr(Scripts, "run", run)
    with pytest.raises(SchemaMismatch, match="begun and not finished"):
        await store.open()
    await store.upgrade()
    async with opened(store):
        await test_everything_is_there(World(store, clock))
    assert {old.ask("TYPE", key) for key in TASKS} == {"string"}


async def test_an_instance_of_the_old_version_that_wakes_up_later_harms_nothing(
    world: World, redis: RedisServer
) -> None:
    """Its scripts begin with its types: they get no further, and what they would make is not made."""
    for name in ("work", "next"):
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            redis.ask("HMGET", f"scheduler:task_type:{{{name}}}", "config", "overrides", "followed")
    assert redis.ask("HGET", "scheduler:meta", "schema") == "2", "and it is not opened by one that starts"
    await world.check_counts()
