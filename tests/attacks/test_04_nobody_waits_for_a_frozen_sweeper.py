"""Number 4: a worker that is frozen in a transaction on PostgreSQL delays nobody's recovery, and no heartbeat."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator

import psycopg
import pytest
from sqlalchemy import Connection, create_engine, text
from tests.opening import opened

from rota.clock import SECOND
from rota.database import Database
from rota.errors import StoreUnavailable
from rota.stores.base import Beat
from rota.stores.sql import SqlStore
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import LEASE, World
from rota.testing.waiting import until_blocking


@pytest.fixture
async def store(postgres_url: str, clock: FakeClock) -> AsyncGenerator[SqlStore]:
    async with opened(SqlStore(postgres_url, clock=clock)) as store:
        yield store


async def held_by_the_dead(world: World, *keys: str) -> None:
    """Tasks whose runs have begun, of an instance that is never heard of again."""
    await world.type()
    await world.tick()
    for key in keys:
        await world.schedule(key)
    for task in await world.claim(len(keys)):
        world.renew(task)


async def reaped_in_time(world: World) -> list[str]:
    """What one who sweeps every second has reaped when the leases are over."""
    reaped: list[str] = []
    for _ in range(LEASE // SECOND + 1):
        world.clock.advance("1s")
        reaped += [task.key for task in (await world.tick()).reaped]
    return reaped


async def test_recovery_goes_on_while_somebody_holds_what_a_tick_writes(
    store: SqlStore, postgres_url: str, clock: FakeClock
) -> None:
    world = World(store, clock)
    await held_by_the_dead(world, "k")
    with psycopg.connect(postgres_url) as frozen:
        frozen.execute("UPDATE meta SET value = value WHERE name = 'swept_at'")
        # That nobody could write down the sweeps is no reason to prolong a lease either.
        assert await reaped_in_time(world) == ["k"]
        frozen.rollback()


async def test_the_first_note_is_made_once(store: SqlStore, postgres_url: str, clock: FakeClock) -> None:
    await asyncio.gather(*(store.tick(Beat(instance=f"i{number}"), now=clock.now()) for number in range(4)))
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute("SELECT value FROM meta WHERE name = 'swept_at'").fetchall()
    assert rows == [(str(clock.now()),)]


async def test_a_task_that_somebody_holds_does_not_keep_others_from_being_reaped(
    store: SqlStore, postgres_url: str, clock: FakeClock
) -> None:
    world = World(store, clock)
    await held_by_the_dead(world, "free", "held")
    with psycopg.connect(postgres_url) as frozen:
        frozen.execute("SELECT 1 FROM scheduled_tasks WHERE key = 'held' FOR UPDATE")
        assert await reaped_in_time(world) == ["free"]
        frozen.rollback()
    clock.advance("1s")
    assert [task.key for task in (await world.tick()).reaped] == ["held"]


async def test_a_heartbeat_does_not_queue_behind_the_writers(postgres_url: str) -> None:
    database = Database(postgres_url)
    await database.open()
    may_go_on = threading.Event()
    begun = threading.Semaphore(0)

    def slow(connection: Connection) -> None:
        begun.release()
        may_go_on.wait(60)

    busy = [asyncio.create_task(database.write(slow)) for _ in range(database.backend.writers)]
    for _ in busy:
        await asyncio.to_thread(begun.acquire)
    # The heartbeat and the sweeper block their own threads, both at once.
    together = threading.Barrier(2, timeout=60)

    def beat(connection: Connection) -> int:
        together.wait()
        return int(connection.execute(text("SELECT 1")).scalar_one())

    try:
        both = await asyncio.gather(*(asyncio.to_thread(database.write_blocking, beat) for _ in range(2)))
    finally:
        may_go_on.set()
    assert both == [1, 1]
    await asyncio.gather(*busy)
    await database.close()


async def test_whoever_is_frozen_is_cut_off_before_others_give_up(postgres_url: str) -> None:
    database = Database(postgres_url, call_timeout=2.0)
    await database.open()
    with database.engine.connect() as connection:
        limits = [
            connection.execute(text(f"SHOW {name}")).scalar_one()
            for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
        ]
    assert limits == ["2s", "1600ms", "1200ms"]

    other = create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    idle = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")

    def freeze(connection: Connection) -> None:
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()

        def is_cut_off() -> bool:
            with other.connect() as looking:
                return looking.execute(idle, {"pid": pid}).scalar_one() == 0

        until_blocking(is_cut_off, "the server has given up on it")
        connection.execute(text("SELECT 1"))

    with pytest.raises(StoreUnavailable):
        await database.write(freeze)
    assert await database.now() > 0
    other.dispose()
    await database.close()
