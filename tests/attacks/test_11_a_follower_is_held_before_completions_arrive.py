"""Number 11: on PostgreSQL a follower was claimed between the look at what has arrived for it and its lock, and ran
again for completions that it had dealt with."""

from __future__ import annotations

import asyncio
import threading

from sqlalchemy import Connection, text

from rota.core.task import TaskStatus, Transition
from rota.core.task_type import TriggerMode
from rota.stores import verbs
from rota.stores.base import ClaimRequest
from rota.stores.sql import SqlStore
from rota.stores.sql.transaction import SqlTransaction
from rota.stores.work import Work
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import LEASE, World
from rota.testing.waiting import until

_WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid <> pg_backend_pid()")


async def complete(world: World, task_type: str) -> None:
    await world.schedule("k", task_type)
    await world.run(Transition.COMPLETE, task_type)


async def waits_at_a_second_completion(store: SqlStore, clock: FakeClock) -> World:
    """d comes after a and c; it has run once, and has been asked to run once more. Since its last claim a has completed
    and has arrived; c has completed, and nobody has handed that on yet."""
    world = World(store, clock)
    for name in "ac":
        await world.type(name)
    await world.type("d", trigger_mode=TriggerMode.AFTER, after=("a", "c"))
    for name in "ac":
        await complete(world, name)
    await world.pump()
    await world.run(task_type="d")
    await complete(world, "a")
    await world.pump()
    await world.apply(Transition.RUN_NOW, "k", "d")
    await complete(world, "c")
    return world


async def test_what_arrives_while_a_follower_is_claimed_counts_for_its_next_run(
    postgres_url: str, clock: FakeClock
) -> None:
    store = SqlStore(postgres_url, clock=clock)
    await store.open()
    world = await waits_at_a_second_completion(store, clock)
    claimed, may_commit = threading.Event(), threading.Event()

    def claim_slowly(connection: Connection) -> None:
        work = Work(
            SqlTransaction(connection, store.database.backend.dialect, store.database.changes, 0, frozenset()),
            clock.now(),
        )
        request = ClaimRequest(wants=(("d", 1),), instance="i1", claim_id="slow", lease_ms=LEASE)
        assert len(verbs.claim(work, request).tasks) == 1
        work.finish()
        claimed.set()
        may_commit.wait(60)

    async def somebody_waits() -> bool:
        return bool(await store.database.read(lambda connection: connection.execute(_WAITING).scalar_one()))

    claiming = asyncio.create_task(store.database.write(claim_slowly))
    await asyncio.to_thread(claimed.wait, 60)
    pumping = asyncio.create_task(world.pump())
    await until(somebody_waits, "the pump waits for the claim", seconds=20)
    may_commit.set()
    await asyncio.gather(claiming, pumping)

    task = await world.there("k", "d")
    assert (task.status, task.dirty) == (TaskStatus.RUNNING, False), "only c has completed since it was claimed"
    await world.settle(task)
    assert await world.status("k", "d") is TaskStatus.COMPLETED
    await complete(world, "a")
    await world.pump()
    assert await world.status("k", "d") is TaskStatus.PENDING, "and now both have"
    await store.close()


async def test_two_pumps_with_the_same_followers_do_not_wait_for_each_other(
    postgres_url: str, clock: FakeClock
) -> None:
    """Each holds what it hands on; whichever order the completions came in, followers are held in one order."""
    store = SqlStore(postgres_url, clock=clock)
    await store.open()
    world = World(store, clock)
    for name in "ac":
        await world.type(name)
    await world.type("d", trigger_mode=TriggerMode.AFTER, after=("a", "c"))
    keys = [f"k{number:02}" for number in range(30)]
    for name, ordered in (("a", keys), ("c", keys[::-1])):
        for key in ordered:
            await world.schedule(key, name)
            await world.run(Transition.COMPLETE, name)
    handed_on = 0
    while handed_on < 2 * len(keys):
        handed_on += sum(await asyncio.gather(*(store.pump(limit=20, now=clock.now()) for _ in range(3))))
    assert {task.key for task in await world.all_tasks("d")} == set(keys)
    await store.close()
