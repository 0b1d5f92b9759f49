"""What the released version wrote, opened by this one: everything is there, and everything goes on.

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

import pytest
from tests.opening import opened

from rota.clock import HOUR, MINUTE
from rota.core.outcome import Answer
from rota.core.task import Identity, Task, TaskStatus, Transition
from rota.core.token import floor_at
from rota.stores.redis import RedisStore
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import World
from rota.testing.redis_servers import RedisServer

RELEASED: Mapping[str, Any] = json.loads((Path(__file__).parent / "released_layout.json").read_text())
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
async def world(redis: RedisServer, redis_url: str, clock: FakeClock) -> AsyncIterator[World]:
    """A minute after the old version was stopped."""
    for key, found in RELEASED["keys"].items():
        _put(redis, key, found["type"], found["value"])
    clock.set(RELEASED["now"] + MINUTE)
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


async def test_a_worker_of_the_old_version_counts_on_above(world: World, redis: RedisServer) -> None:
    """It adds to the counter: whatever it hands out beside this version is higher than what this one has."""
    await world.claim(9)
    tokens = [task.token for task in (await _running(world)).values()]
    assert int(str(redis.ask("INCRBY", "scheduler:seq:{work}", 1))) == max(tokens) + 1
    await world.schedule("next")
    assert (await world.claim_one()).token > max(tokens) + 1
