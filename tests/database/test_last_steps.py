"""What a transaction does last: before its commit, once, and not at all if it comes to nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import Connection, text
from tests.opening import opened

from rota.database import Database


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def database(request: pytest.FixtureRequest) -> AsyncGenerator[Database]:
    async with opened(Database(str(request.getfixturevalue(str(request.param))))) as database:
        await database.write(lambda connection: connection.execute(text("CREATE TABLE mine (n INTEGER)")))
        yield database


def _add(number: int, connection: Connection) -> None:
    connection.execute(text("INSERT INTO mine VALUES (:n)"), {"n": number})


async def _all(database: Database) -> list[int]:
    return await database.read(lambda connection: list(connection.execute(text("SELECT n FROM mine")).scalars()))


async def test_it_comes_last_and_once(database: Database) -> None:
    order: list[str] = []

    def last(connection: Connection) -> None:
        order.append("last")
        _add(2, connection)

    def write(connection: Connection) -> None:
        for _ in range(3):
            database.last_steps.add(connection, "a", last)
        _add(1, connection)
        order.append("first")

    await database.write(write)
    await database.write(lambda connection: _add(3, connection))
    assert order == ["first", "last"]
    assert await _all(database) == [1, 2, 3]


async def test_what_comes_to_nothing_has_no_last_step(database: Database) -> None:
    def write(connection: Connection) -> None:
        database.last_steps.add(connection, "a", lambda connection: _add(1, connection))
        raise ValueError("changed its mind")

    with pytest.raises(ValueError, match="changed"):
        await database.write(write)
    await database.write(lambda connection: _add(2, connection))
    assert await _all(database) == [2]


async def test_a_last_step_that_fails_undoes_all(database: Database) -> None:
    def fail(connection: Connection) -> None:
        raise ValueError("no room")

    def write(connection: Connection) -> None:
        _add(1, connection)
        database.last_steps.add(connection, "a", fail)

    with pytest.raises(ValueError, match="no room"):
        await database.write(write)
    await database.write(lambda connection: _add(2, connection))
    assert await _all(database) == [2]


async def test_also_on_a_connection_of_the_callers_own(database: Database) -> None:
    with database.engine.begin() as connection:
        database.last_steps.add(connection, "a", lambda connection: _add(1, connection))
    assert await _all(database) == [1]
