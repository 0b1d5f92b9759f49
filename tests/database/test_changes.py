"""Who hears of which commits: of this process, of another one, and of none that concern others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import Connection, text
from tests.opening import opened

from rota.database import Database
from rota.testing.waiting import PATIENCE, until

MOMENT = 0.1
"""Long enough to see that nobody is woken; a test that is too slow for it passes all the same."""


@pytest.fixture(params=["sqlite_url", "postgres_url", "memory"])
def url(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    return "sqlite:///:memory:" if name == "memory" else str(request.getfixturevalue(name))


@pytest.fixture
async def database(url: str) -> AsyncGenerator[Database]:
    async with opened(Database(url)) as database:
        yield database


async def _poke(database: Database, topic: str) -> None:
    await database.write(lambda connection: database.changes.poke(connection, topic))


async def _settled(database: Database, topic: str) -> None:
    """Whoever subscribes is woken once or twice, because nobody knows what came before; that is over then."""
    with await database.changes.subscribe(topic) as heard:
        while await heard.wait(MOMENT):
            pass


async def test_a_commit_of_this_process_is_heard_by_its_topic(database: Database) -> None:
    with await database.changes.subscribe("a") as a, await database.changes.subscribe("b") as b:
        while await a.wait(MOMENT) or await b.wait(MOMENT):
            pass
        await _poke(database, "a")
        assert await a.wait(PATIENCE)
        assert not await b.wait(MOMENT)


async def test_two_who_wait_for_one_topic_both_hear_of_it(database: Database) -> None:
    """A look that was used up by whoever looked first took the commit from the other one."""
    with await database.changes.subscribe("a") as one, await database.changes.subscribe("a") as two:
        await _settled(database, "a")
        await one.wait(MOMENT)
        await two.wait(MOMENT)
        await _poke(database, "a")
        assert await asyncio.gather(one.wait(PATIENCE), two.wait(PATIENCE)) == [True, True]


async def test_what_is_poked_before_somebody_waits_is_not_lost(database: Database) -> None:
    with await database.changes.subscribe("a") as heard:
        await _poke(database, "a")
        assert await heard.wait(PATIENCE)


async def test_a_commit_on_a_connection_of_the_callers_own_is_heard(database: Database) -> None:
    """An application may use Rota's engine in transactions of its own."""

    def write() -> None:
        with database.engine.begin() as connection:
            database.changes.poke(connection, "a")

    with await database.changes.subscribe("a") as heard:
        while await heard.wait(MOMENT):
            pass
        await asyncio.to_thread(write)
        assert await heard.wait(PATIENCE)


async def test_a_commit_on_a_connection_that_is_kept_is_heard(postgres_url: str) -> None:
    """It goes back to nobody, so nobody here sees it coming back: the server tells of it."""
    async with opened(Database(postgres_url)) as database:
        with await database.changes.subscribe("a") as heard:
            await _settled(database, "a")
            while await heard.wait(MOMENT):
                pass
            connection = await asyncio.to_thread(database.engine.connect)
            try:
                database.changes.poke(connection, "a")
                connection.execute(text("SELECT 1"))
                await asyncio.to_thread(connection.commit)
                assert await heard.wait(PATIENCE)
            finally:
                connection.close()


async def test_a_commit_of_our_own_wakes_once(postgres_url: str) -> None:
    """The server tells it to us as well; whoever looked already would look again for nothing."""
    async with opened(Database(postgres_url)) as database:
        woken: list[int] = []
        with (
            await database.changes.subscribe("a", on_wake=lambda: woken.append(1)),
            await database.changes.subscribe("b") as other,
        ):
            await _settled(database, "a")
            woken.clear()
            for _ in range(5):
                await _poke(database, "a")
            # What the server tells comes in its order: when another's is heard, ours have been.
            async with opened(Database(postgres_url)) as another:
                while await other.wait(MOMENT):
                    pass
                await _poke(another, "b")
                assert await other.wait(PATIENCE)
        assert len(woken) == 5


async def test_many_topics_of_a_transaction_are_told_at_once(postgres_url: str) -> None:
    async with opened(Database(postgres_url)) as database, opened(Database(postgres_url)) as other:
        with await other.changes.subscribe("a") as a, await other.changes.subscribe("b", "c") as b:
            while await a.wait(MOMENT) or await b.wait(MOMENT):
                pass

            def write(connection: Connection) -> None:
                for topic in ("a", "c", "a"):
                    database.changes.poke(connection, topic)

            await database.write(write)
            assert await asyncio.gather(a.wait(PATIENCE), b.wait(PATIENCE)) == [True, True]


@pytest.mark.parametrize("url", ["sqlite_url", "postgres_url"], indirect=True)
async def test_a_commit_of_another_process_is_heard_by_all(database: Database, url: str) -> None:
    """Another database object has connections of its own, as another process has."""
    async with opened(Database(url)) as other:
        with await database.changes.subscribe("a") as one, await database.changes.subscribe("a") as two:
            while await one.wait(MOMENT) or await two.wait(MOMENT):
                pass

            def write(connection: Connection) -> None:
                connection.execute(text("CREATE TABLE mine (n INTEGER)"))
                other.changes.poke(connection, "a")

            await other.write(write)
            assert await asyncio.gather(one.wait(PATIENCE), two.wait(PATIENCE)) == [True, True]


async def test_who_has_closed_hears_nothing_and_the_others_do(database: Database) -> None:
    with await database.changes.subscribe("a") as heard:
        (await database.changes.subscribe("a")).close()
        while await heard.wait(MOMENT):
            pass
        await _poke(database, "a")
        assert await heard.wait(PATIENCE)


async def test_it_is_heard_again_after_the_database_was_closed_and_opened(url: str) -> None:
    database = Database(url)
    for _ in range(2):
        async with opened(database):
            with await database.changes.subscribe("a") as heard:
                await _poke(database, "a")
                assert await heard.wait(PATIENCE)


async def test_a_listener_that_is_cut_off_says_so_and_comes_back(postgres_url: str) -> None:
    """It failed in silence, and everybody was a tick late from then on."""
    async with opened(Database(postgres_url)) as database:
        with await database.changes.subscribe("a") as heard:
            kill = text("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE :q")
            channel = f"LISTEN%{database.schema}%"
            assert await database.write(lambda connection: connection.execute(kill, {"q": channel}).scalar_one()) == 1
            await until(lambda: database.changes.trouble is not None)
            assert "terminat" in str(database.changes.trouble)
            await until(lambda: database.changes.trouble is None)
            assert await heard.wait(PATIENCE), "nobody knows what was missed"
