"""Calls that share a commit, each whole or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from itertools import count

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


@pytest.fixture
async def one_writer(sqlite_url: str) -> AsyncGenerator[Database]:
    async with opened(Database(sqlite_url)) as database:
        await database.write(lambda connection: connection.execute(text("CREATE TABLE mine (n INTEGER UNIQUE)")))
        yield database


async def test_the_writer_goes_on_while_the_loop_is_busy(one_writer: Database) -> None:
    """A loop that begins two hundred handlers keeps no commit waiting."""
    may_end, is_next = threading.Event(), threading.Event()
    first = asyncio.ensure_future(one_writer.grouped(_add(1, lambda: may_end.wait(60))))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(one_writer.grouped(_add(2, is_next.set)))
    await asyncio.sleep(0)
    may_end.set()
    assert is_next.wait(60), "without a turn of the loop"
    assert await asyncio.gather(first, second) == [1, 2]


async def test_what_waits_for_the_writer_shares_a_commit(one_writer: Database) -> None:
    commits: list[object] = []
    event.listen(one_writer.engine, "commit", commits.append)
    has_begun, may_end = threading.Event(), threading.Event()
    first = asyncio.ensure_future(one_writer.grouped(_add(0, lambda: has_begun.set() or may_end.wait(60))))
    assert await asyncio.to_thread(has_begun.wait, 60)
    others = [asyncio.ensure_future(one_writer.grouped(_add(number))) for number in range(1, 30)]
    await asyncio.sleep(0)
    may_end.set()
    assert await asyncio.gather(first, *others) == list(range(30))
    assert len(commits) == 2


async def test_a_heartbeat_has_its_turn_between_groups(one_writer: Database) -> None:
    """Whoever blocks, and does not share, comes after the group under way; also if groups never cease."""
    is_over = asyncio.Event()

    async def write_and_write(first: int) -> None:
        for number in count(first):
            await one_writer.grouped(_add(number))
            if is_over.is_set():
                return

    busy = [asyncio.ensure_future(write_and_write(first)) for first in (10_000, 1_000_000)]
    for number in range(20):
        assert await asyncio.to_thread(one_writer.write_blocking, _add(number)) == number
    is_over.set()
    await asyncio.gather(*busy)


async def test_whoever_waits_when_it_is_closed_is_answered(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    async with opened(database):
        await database.write(lambda connection: connection.execute(text("CREATE TABLE mine (n INTEGER UNIQUE)")))
        calls = [asyncio.ensure_future(database.grouped(_add(number))) for number in range(50)]
        await asyncio.sleep(0)
    assert await asyncio.gather(*calls) == list(range(50))
