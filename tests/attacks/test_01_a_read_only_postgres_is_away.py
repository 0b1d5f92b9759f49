"""Number 1: a PostgreSQL that is read-only for a while (a fail-over, a standby) is away, and does not refuse."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from rota import Rota
from rota.core.outcome import Answer, TouchOutcome
from rota.core.task import NewTask, Renewal
from rota.errors import StoreUnavailable
from rota.stores.sql import SqlStore
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import WORK, World
from rota.testing.servers import PostgresServer
from rota.testing.waiting import until


def _set(postgres: PostgresServer, statement: LiteralString) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(statement)
        connection.execute("SELECT pg_reload_conf()")


@asynccontextmanager
async def read_only(postgres: PostgresServer) -> AsyncGenerator[None]:
    """The whole server, for every session, as a demoted one is."""

    def is_seen() -> bool:
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            row = connection.execute("SHOW default_transaction_read_only").fetchone()
            return row == ("on",)

    _set(postgres, "ALTER SYSTEM SET default_transaction_read_only = on")
    try:
        await until(is_seen, "the server is read-only")
        yield
    finally:
        _set(postgres, "ALTER SYSTEM RESET default_transaction_read_only")
        await until(lambda: not is_seen(), "the server takes writes again")


async def test_calls_say_that_it_is_away_and_work_when_it_is_back(
    postgres: PostgresServer, postgres_url: str, clock: FakeClock
) -> None:
    store = SqlStore(postgres_url, clock=clock)
    await store.open()
    world = World(store, clock)
    await world.type()
    await world.schedule("a")
    task = await world.claim_one()
    renewal = Renewal(task_type=task.task_type, key=task.key, token=task.token)
    async with read_only(postgres):
        with pytest.raises(StoreUnavailable, match="read-only"):
            await store.schedule([NewTask(task_type=WORK, key="b")])
        with pytest.raises(StoreUnavailable, match="read-only"):
            await world.settle(task)
        with pytest.raises(StoreUnavailable, match="read-only"):
            store.renew([renewal], 10_000)
    assert store.renew([renewal], 10_000)[0].answer is Answer.OK
    assert (await world.settle(task)).answer is Answer.OK
    await store.close()


async def test_touches_are_spooled(postgres: PostgresServer, postgres_url: str, tmp_path: Path) -> None:
    app = Rota({"store": postgres_url}, spool=str(tmp_path / "spool.db"))

    @app.on_activity(after="1h")
    async def tidy(user_id: str) -> None: ...

    async with app:
        assert (await app.touch("tidy", "u0")).outcome is TouchOutcome.CREATED
        async with read_only(postgres):
            assert (await app.touch("tidy", "u1")).outcome is TouchOutcome.SPOOLED
