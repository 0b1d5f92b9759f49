"""Calls that share a commit, each whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest
from sqlalchemy import Connection, event, text
from tests.opening import opened

from rota.database import Conflict, Database
from rota.errors import StoreError, StoreUnavailable


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def database(request: pytest.FixtureRequest) -> AsyncGenerator[Database]:
    async with opened(Database(str(request.getfixturevalue(str(request.param))))) as database:
        await database.write(lambda connection: connection.execute(text("CREATE TABLE mine (n INTEGER UNIQUE)")))
        yield database


def _add(number: int, then: Callable[[], object] = lambda: None) -> Callable[[Connection], int]:
    def write(connection: Connection) -> int:
        connection.execute(text("INSERT INTO mine VALUES (:n)"), {"n": number})
        then()
        return number

    return write


async def _all(database: Database) -> list[int]:
    return await database.read(
        lambda connection: list(connection.execute(text("SELECT n FROM mine ORDER BY n")).scalars())
    )


async def test_two_hundred_at_once_cost_a_few_commits(database: Database) -> None:
    commits: list[object] = []
    event.listen(database.engine, "commit", commits.append)
    answers = await asyncio.gather(*(database.grouped(_add(number)) for number in range(200)))
    assert answers == list(range(200))
    assert await _all(database) == list(range(200))
    assert len(commits) <= 20


async def test_one_that_raises_takes_nobody_with_it(database: Database) -> None:
    def refuse() -> None:
        raise ValueError("changed its mind")

    calls = [database.grouped(_add(number, refuse if number == 7 else lambda: None)) for number in range(20)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers[7], ValueError)
    assert [each for each in answers if not isinstance(each, BaseException)] == [n for n in range(20) if n != 7]
    assert await _all(database) == [number for number in range(20) if number != 7]


async def test_one_that_the_database_refuses_takes_nobody_with_it(database: Database) -> None:
    calls = [database.grouped(_add(number)) for number in (1, 2, 2, 3)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(each, StoreError) for each in answers] == [False, False, True, False]
    assert await _all(database) == [1, 2, 3]


async def test_a_lost_race_runs_all_of_them_again(database: Database) -> None:
    runs: list[int] = []

    def conflict_once() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise Conflict("somebody was first")

    await asyncio.gather(*(database.grouped(_add(n, conflict_once if n == 3 else lambda: None)) for n in range(6)))
    assert len(runs) == 2
    assert await _all(database) == list(range(6))


async def test_a_database_that_is_closed_says_so() -> None:
    database = Database("sqlite:///:memory:")
    with pytest.raises(StoreUnavailable, match="is not open"):
        await database.grouped(lambda _: None)
