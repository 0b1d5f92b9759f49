"""Statements that travel together: in their order, seen by whoever asks next, and undone as one."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import Connection, event, text
from tests.opening import opened

from rota.core.task_type import TaskType, TriggerMode
from rota.database import Database
from rota.database.backend import READ_FIRST
from rota.database.later import read_later, write_later
from rota.errors import StoreError, StoreUnavailable
from rota.stores.sql import SqlStore

_ADD = text("INSERT INTO mine VALUES (:n)")
_NUMBERS = text("SELECT n FROM mine ORDER BY n")


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def database(request: pytest.FixtureRequest) -> AsyncGenerator[Database]:
    async with opened(Database(str(request.getfixturevalue(str(request.param))))) as database:
        await _make_table(database)
        yield database


@pytest.fixture
async def on_postgres(postgres_url: str) -> AsyncGenerator[Database]:
    async with opened(Database(postgres_url)) as database:
        await _make_table(database)
        yield database


async def _make_table(database: Database) -> None:
    await database.write(lambda connection: connection.execute(text("CREATE TABLE mine (n INTEGER PRIMARY KEY)")))


def _add(connection: Connection, *numbers: int) -> None:
    for number in numbers:
        write_later(connection, _ADD, {"n": number})


async def _all(database: Database) -> list[int]:
    return await database.read(lambda connection: list(connection.execute(_NUMBERS).scalars()))


async def test_they_are_committed_in_their_order(database: Database) -> None:
    def write(connection: Connection) -> None:
        _add(connection, 1)
        write_later(connection, _MULTIPLY, {"by": 10})
        _add(connection, 2)

    await database.write(write)
    assert await _all(database) == [2, 10]


_MULTIPLY = text("UPDATE mine SET n = n * :by")


async def test_whoever_asks_next_sees_them(database: Database) -> None:
    def write(connection: Connection) -> tuple[list[int], list[int]]:
        _add(connection, 1)
        by_statement = list(connection.execute(_NUMBERS).scalars())
        _add(connection, 2)
        return by_statement, [n for (n,) in read_later(connection, _NUMBERS, {}).rows()]

    assert await database.write(write) == ([1], [1, 2])


async def test_an_answer_is_of_the_moment_it_was_asked_for(database: Database) -> None:
    def write(connection: Connection) -> list[list[int]]:
        before = read_later(connection, _NUMBERS, {})
        _add(connection, 1)
        after = read_later(connection, _NUMBERS, {})
        return [[n for (n,) in answer.rows()] for answer in (after, before, after)]

    assert await database.write(write) == [[1], [], [1]]


async def test_an_answer_nobody_looks_at_does_no_harm(database: Database) -> None:
    def write(connection: Connection) -> None:
        read_later(connection, _NUMBERS, {})
        _add(connection, 1)

    await database.write(write)
    assert await _all(database) == [1]


async def test_what_is_wrong_with_one_undoes_all(database: Database) -> None:
    with pytest.raises(StoreError, match="refused"):
        await database.write(lambda connection: _add(connection, 1, 2, 1))
    await database.write(lambda connection: _add(connection, 3))
    assert await _all(database) == [3]


async def test_what_comes_to_nothing_is_never_sent(database: Database) -> None:
    def write(connection: Connection) -> None:
        _add(connection, 1)
        raise ValueError("changed its mind")

    with pytest.raises(ValueError, match="changed"):
        await database.write(write)
    await database.write(lambda connection: _add(connection, 2))
    assert await _all(database) == [2]


async def test_in_a_group_each_answers_for_its_own(database: Database) -> None:
    def write(connection: Connection) -> list[object]:
        return [
            database.in_savepoint(connection, lambda connection: _add(connection, 1)),
            database.in_savepoint(connection, lambda connection: _add(connection, 2, 1)),
            database.in_savepoint(connection, _change_mind),
            database.in_savepoint(connection, lambda connection: _add(connection, 3)),
        ]

    first, second, third, fourth = await database.write(write)
    assert (first, fourth) == (None, None)
    assert isinstance(second, StoreError)
    assert isinstance(third, ValueError)
    assert await _all(database) == [1, 3]


def _change_mind(connection: Connection) -> None:
    _add(connection, 4)
    raise ValueError("changed its mind")


async def test_somebody_elses_transaction_keeps_nothing(database: Database) -> None:
    statements: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))

    def write() -> None:
        with database.engine.begin() as connection:
            _add(connection, 1)
            assert any("INSERT" in statement for statement in statements)
            assert list(read_later(connection, _NUMBERS, {}).rows()) == [(1,)]

    write()
    assert await _all(database) == [1]


async def test_whoever_lost_a_race_at_the_commit_tries_again(on_postgres: Database) -> None:
    tries: list[int] = []

    def write(connection: Connection) -> None:
        tries.append(1)
        _add(connection, 1)
        if len(tries) < 3:
            write_later(connection, _LOSE, {})

    await on_postgres.write(write)
    assert len(tries) == 3
    assert await _all(on_postgres) == [1]


_LOSE = text("DO $$ BEGIN RAISE EXCEPTION 'too late' USING ERRCODE = '40001'; END $$")


async def test_a_connection_that_breaks_is_replaced(on_postgres: Database) -> None:
    def write(connection: Connection) -> None:
        _add(connection, 1)
        write_later(connection, _BREAK, {})

    with pytest.raises(StoreUnavailable, match="cannot be used"):
        await on_postgres.write(write)
    await on_postgres.write(lambda connection: _add(connection, 2))
    assert await _all(on_postgres) == [2]


_BREAK = text("SELECT pg_terminate_backend(pg_backend_pid())")


async def test_a_server_that_takes_no_writes_is_left(on_postgres: Database) -> None:
    """After a fail-over an old connection leads to the standby: the next one may find whoever writes now."""
    numbers: list[int | None] = []

    def number(connection: Connection) -> None:
        numbers.append(on_postgres.backend.number_of(connection.connection.dbapi_connection))

    def write(connection: Connection) -> None:
        number(connection)
        write_later(connection, _STANDBY, {})
        _add(connection, 1)

    with pytest.raises(StoreUnavailable):
        await on_postgres.write(write)
    await on_postgres.write(number)
    assert numbers[0] != numbers[1]


_STANDBY = text("SET TRANSACTION READ ONLY")


async def test_what_a_transaction_reads_first_comes_with_its_beginning(on_postgres: Database) -> None:
    await on_postgres.write(lambda connection: _add(connection, 7))
    seen = await on_postgres.write(lambda c: c.info.pop(READ_FIRST), first="SELECT n FROM mine")
    assert list(seen) == [(7,)]
    assert await on_postgres.write(lambda c: READ_FIRST in c.info) is False


async def test_what_nobody_looked_at_is_not_taken_for_the_next_ones(on_postgres: Database) -> None:
    """Connections are used again: what one transaction has read first is out of date for another."""
    for _ in range(10):
        await on_postgres.write(lambda connection: None, first="SELECT n FROM mine")
    for _ in range(10):
        assert await on_postgres.write(lambda connection: READ_FIRST in connection.info) is False
        assert await on_postgres.read(lambda connection: READ_FIRST in connection.info) is False


async def test_types_are_those_of_now_whoever_used_the_connection_before(postgres_url: str) -> None:
    async with opened(SqlStore(postgres_url)) as store, opened(SqlStore(postgres_url)) as another:
        await store.put_types([TaskType(name="work", trigger_mode=TriggerMode.ONCE)])
        for _ in range(10):
            await store.instances()
        await another.override_type("work", {"enabled": False})
        for _ in range(10):
            assert [record.accepts for record in await store.list_types()] == [False]
