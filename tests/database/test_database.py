"""One database, several parts of a program that share it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, make_url, text

from rota import Rota
from rota.database import Conflict, Database
from rota.errors import InvalidConfig, StoreUnavailable
from rota.stores import database_for, open_store


@pytest.fixture(params=["sqlite_url", "postgres_url", "memory"])
def url(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    return "sqlite:///:memory:" if name == "memory" else str(request.getfixturevalue(name))


def _make_table(connection: Connection) -> None:
    connection.execute(text("CREATE TABLE mine (n INTEGER)"))


def _add(number: int) -> Callable[[Connection], None]:
    def write(connection: Connection) -> None:
        connection.execute(text("INSERT INTO mine VALUES (:n)"), {"n": number})

    return write


def _sum(connection: Connection) -> int:
    return int(connection.execute(text("SELECT coalesce(sum(n), 0) FROM mine")).scalar_one())


async def test_what_is_written_is_read(url: str) -> None:
    database = Database(url)
    await database.open()
    await database.write(_make_table)
    await asyncio.gather(*(database.write(_add(number)) for number in range(20)))
    assert await database.read(_sum) == sum(range(20))
    assert await asyncio.to_thread(database.write_blocking, _sum) == sum(range(20))
    await database.close()


async def test_a_transaction_that_fails_leaves_nothing(url: str) -> None:
    database = Database(url)
    await database.open()
    await database.write(_make_table)

    def fail(connection: Connection) -> None:
        _add(1)(connection)
        raise ValueError("changed its mind")

    with pytest.raises(ValueError, match="changed its mind"):
        await database.write(fail)
    assert await database.read(_sum) == 0
    await database.close()


async def test_one_that_lost_a_race_is_run_again(url: str) -> None:
    database = Database(url)
    await database.open()
    await database.write(_make_table)
    tries: list[int] = []

    def third_time_lucky(connection: Connection) -> None:
        tries.append(1)
        _add(1)(connection)
        if len(tries) < 3:
            raise Conflict("somebody was first")

    await database.write(third_time_lucky)
    assert len(tries) == 3
    assert await database.read(_sum) == 1
    await database.close()


async def test_a_race_that_is_always_lost_is_said(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    await database.open()

    def never(connection: Connection) -> None:
        raise Conflict("somebody was first")

    with pytest.raises(StoreUnavailable, match="too busy: somebody was first"):
        await database.write(never)
    await database.close()


async def test_it_stays_open_until_the_last_one_lets_go(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    await asyncio.gather(*(database.open() for _ in range(3)))
    for _ in range(2):
        await database.close()
    assert await database.now() > 0
    await database.close()
    await database.close()
    with pytest.raises(StoreUnavailable, match="is not open"):
        await database.now()


async def test_it_can_be_opened_again(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    for _ in range(2):
        await database.open()
        assert await database.now() > 0
        await database.close()


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/nowhere/rota.db")
    with pytest.raises(InvalidConfig, match="folder"):
        await database.open()


async def test_a_cancelled_call_is_finished_all_the_same(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    await database.open()
    await database.write(_make_table)
    begun, may_go_on = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        begun.set()
        may_go_on.wait(60)
        _add(7)(connection)

    call = asyncio.create_task(database.write(slow))
    await asyncio.to_thread(begun.wait, 60)
    call.cancel()
    await asyncio.wait([call])
    may_go_on.set()
    assert await database.write(_sum) == 7
    await database.close()


async def test_a_sql_store_shares_its_own(sqlite_url: str) -> None:
    store = open_store(sqlite_url)
    assert database_for(store, sqlite_url) is database_for(store, sqlite_url)
    assert database_for(store, "sqlite:///:memory:") is not database_for(store, sqlite_url)


async def test_an_app_gives_one_database_to_all_who_ask(sqlite_url: str) -> None:
    app = Rota(sqlite_url)
    async with app:
        first, *others = await asyncio.gather(*(app.database() for _ in range(5)))
        assert all(other is first for other in others)
        assert await first.now() > 0
    with pytest.raises(StoreUnavailable):
        await first.now()


async def test_what_is_in_memory_is_found_again(url: str) -> None:
    app = Rota("memory://")
    async with app:
        await (await app.database()).write(_make_table)
        await (await app.database()).write(_add(3))
    async with app:
        assert await (await app.database()).read(_sum) == 3


async def test_a_database_that_is_current_opens_beside_one_who_writes_and_never_ends(sqlite_url: str) -> None:
    """A worker that is frozen in the middle of a write must not keep others from starting."""
    first = Database(sqlite_url)
    await first.open()
    second = Database(sqlite_url, call_timeout=0.5)
    with sqlite3.connect(str(make_url(sqlite_url).database), isolation_level=None) as frozen:
        frozen.execute("BEGIN IMMEDIATE")
        await second.open()
        assert await second.read(lambda connection: connection.execute(text("SELECT 1")).scalar_one()) == 1
        frozen.execute("ROLLBACK")
    frozen.close()
    await second.close()
    await first.close()


async def test_an_app_whose_types_are_known_starts_beside_one_who_writes_and_never_ends(sqlite_url: str) -> None:
    def made() -> Rota:
        app = Rota({"store": sqlite_url, "call_timeout": "500ms", "spool": "off"})

        @app.every("1h", run_on_start=False)
        async def report() -> None: ...

        assert report.name == "report"
        return app

    async with made():
        pass
    with sqlite3.connect(str(make_url(sqlite_url).database), isolation_level=None) as frozen:
        frozen.execute("BEGIN IMMEDIATE")
        async with made() as app:
            assert [each.task_type.name for each in await (await app.store()).list_types()] == ["report"]
        frozen.execute("ROLLBACK")
    frozen.close()
