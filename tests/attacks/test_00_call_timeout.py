"""How long a store call may take is one setting, and every part that waits for a store keeps to it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.opening import opened

from rota import Config, Rota, load_config
from rota.call_timeout import DEFAULT_MS
from rota.clock import MINUTE, SECOND
from rota.core.task import Renewal
from rota.database import Database
from rota.database.backends.postgres import PostgresLimits
from rota.errors import InvalidConfig, StoreUnavailable
from rota.stores import open_store
from rota.stores.sql.store import SqlStore
from rota.testing.proxy import Proxy
from rota.testing.redis_servers import RedisServer
from rota.testing.waiting import PATIENCE

SHORT = 0.3
"""Seconds; the answers are asked for by what they say, not by how long they took."""


async def refusal(call: Callable[[], Awaitable[object]]) -> str:
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StoreUnavailable) as refused:
            await call()
    return str(refused.value)


def test_it_is_a_setting_like_any_other() -> None:
    assert load_config({}, environ={}).call_timeout_ms == DEFAULT_MS == 5 * SECOND
    assert load_config({"call_timeout": "250ms"}, environ={}).call_timeout_ms == 250
    assert load_config({}, environ={"ROTA_CALL_TIMEOUT": "1m"}).call_timeout_ms == MINUTE


@pytest.mark.parametrize("given", ["0s", "99ms", "11m"])
def test_an_impossible_one_is_refused(given: str) -> None:
    with pytest.raises(InvalidConfig, match=r"^call_timeout is .* \(argument\)\. Use 100ms to 10m"):
        load_config({"call_timeout": given}, environ={})


async def test_the_configuration_hands_it_to_the_store_and_the_database(sqlite_url: str, tmp_path: Path) -> None:
    config = Config(store_url=sqlite_url, database_url=f"sqlite:///{tmp_path}/other.db", call_timeout_ms=1_234)
    app = Rota(config)
    async with app:
        store, database = await app.host.ready(), await app.database()
        assert isinstance(store, SqlStore)
        assert (store.call_timeout, store.database.call_timeout, database.call_timeout) == (1.234, 1.234, 1.234)
        worker = app.host.make_worker(store)
        assert worker._settings.call_timeout == 1.234  # pyright: ignore[reportPrivateUsage]


def test_this_test_session_has_patience(sqlite_url: str) -> None:
    assert load_config({}).call_timeout_ms == PATIENCE * SECOND
    assert Database(sqlite_url).call_timeout == PATIENCE


async def test_a_redis_that_says_nothing_is_given_up(redis: RedisServer, redis_url: str) -> None:
    assert redis_url
    with Proxy("127.0.0.1", redis.port) as proxy:
        async with opened(open_store(f"redis://127.0.0.1:{proxy.port}/0", call_timeout=SHORT)) as store:
            proxy.half_open()
            assert _is_late(await refusal(store.now))
            renewal = Renewal(task_type="job", key="k", token=1)
            assert _is_late(await refusal(lambda: asyncio.to_thread(store.renew, [renewal], 10_000)))
            proxy.normal()


def _is_late(said: str) -> bool:
    """The store's limit and that of the driver's socket are the same: either may speak first."""
    return "did not answer within 0.3 s" in said or "Timeout" in said


async def test_a_database_whose_writer_is_busy_is_given_up(sqlite_url: str) -> None:
    database = Database(sqlite_url, call_timeout=SHORT)
    await database.open()
    free = threading.Event()
    try:
        assert "did not answer within 0.3 s" in await refusal(lambda: database.write(lambda _: free.wait(PATIENCE)))
        assert "did not answer within 0.3 s" in await refusal(database.now)
        assert "did not answer within 0.3 s" in await refusal(
            lambda: asyncio.to_thread(database.write_blocking, lambda _connection: None)
        )
    finally:
        free.set()
        await database.close()


async def test_another_process_that_holds_the_file_is_waited_for_as_long(sqlite_url: str, tmp_path: Path) -> None:
    async with opened(open_store(sqlite_url, call_timeout=SHORT)) as store:
        with sqlite3.connect(tmp_path / "rota.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            said = await refusal(lambda: store.take("bucket", 1, rate=1, burst=1))
            assert "locked" in said or "within 0.3 s" in said
            other.execute("ROLLBACK")
        other.close()


def test_what_postgres_may_take_lies_within_the_call() -> None:
    assert PostgresLimits.of(5.0) == PostgresLimits(5_000, 4_000, 3_000, 4.0, 5)
    assert PostgresLimits.of(0.1) == PostgresLimits(100, 80, 60, 0.1 * 0.8, 2)


async def test_postgres_is_told(postgres_url: str) -> None:
    database = Database(postgres_url, call_timeout=20)
    await database.open()
    try:
        names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
        told = await database.read(lambda c: [c.execute(text(f"SHOW {name}")).scalar() for name in names])
        assert told == ["20s", "16s", "12s"]
        said = await refusal(_slow(Database(postgres_url, call_timeout=SHORT)))
        assert "statement timeout" in said or "within 0.3 s" in said
    finally:
        await database.close()


def _slow(database: Database) -> Callable[[], Awaitable[object]]:
    async def sleep() -> None:
        await database.open()
        try:
            await database.read(lambda connection: connection.execute(text("SELECT pg_sleep(60)")))
        finally:
            await database.close()

    return sleep
