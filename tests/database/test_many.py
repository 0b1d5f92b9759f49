"""Many rows by one statement: what is written is what is read, on both databases alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, event, select
from tests.opening import opened

from rota.database import Database
from rota.database.many import (
    as_document,
    given_rows,
    insert_many,
    insert_new_many,
    raise_many,
    update_many,
)
from rota.database.tables.batches import batch_events
from rota.database.tables.events import offsets
from rota.errors import StoreError

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_ROWS = st.lists(st.tuples(_TEXT, _TEXT, st.integers(-(2**63), 2**63 - 1)), max_size=20)


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def database(request: pytest.FixtureRequest) -> AsyncGenerator[Database]:
    async with opened(Database(str(request.getfixturevalue(str(request.param))))) as database:
        yield database


def _told(number: int, **more: Any) -> dict[str, Any]:
    return {"batch_id": "b", "number": number, "event": "item", "data": "{}", "at": 1, **more}


async def _all(database: Database) -> list[tuple[Any, ...]]:
    query = select(batch_events).order_by(batch_events.c.batch_id, batch_events.c.number)
    return [tuple(row) for row in await database.read(lambda connection: connection.execute(query).all())]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=_ROWS)
async def test_what_is_written_is_what_is_read(database: Database, rows: list[tuple[str, str, int]]) -> None:
    """Quotes, line ends, other scripts, numbers as large as a column holds."""
    made = [_told(number, event=event, data=data, at=at) for number, (event, data, at) in enumerate(rows)]

    def write(connection: Connection) -> None:
        connection.execute(delete(batch_events))
        insert_many(connection, batch_events, made)

    await database.write(write)
    assert await _all(database) == [tuple(row.values()) for row in made]


async def test_an_update_changes_the_rows_that_are_meant_and_no_others(database: Database) -> None:
    def write(connection: Connection) -> None:
        insert_many(connection, batch_events, [_told(number) for number in (1, 2, 3)])
        changed = [{"batch_id": "b", "number": number, "data": f"new {number}", "at": number} for number in (3, 1)]
        update_many(connection, batch_events, changed, by=("batch_id", "number"))

    await database.write(write)
    assert await _all(database) == [
        ("b", 1, "item", "new 1", 1),
        ("b", 2, "item", "{}", 1),
        ("b", 3, "item", "new 3", 3),
    ]


async def test_rows_that_are_there_are_left_alone(database: Database) -> None:
    def write(connection: Connection) -> set[int]:
        insert_many(connection, batch_events, [_told(1, data="first")])
        again = [_told(1, data="again"), _told(2, data="new")]
        return insert_new_many(connection, batch_events, again, batch_events.c.number)

    assert await database.write(write) == {2}
    assert [row[3] for row in await _all(database)] == ["first", "new"]


async def test_what_is_given_can_be_joined_with(database: Database) -> None:
    def read(connection: Connection) -> list[int]:
        insert_many(connection, batch_events, [_told(number, batch_id=b) for b in "xy" for number in (1, 2, 3)])
        seen = given_rows(connection.dialect.name, batch_events, ("batch_id", "number"))
        later = (batch_events.c.batch_id == seen.c.batch_id) & (batch_events.c.number > seen.c.number)
        query = select(batch_events.c.number).select_from(seen.join(batch_events, later))
        rows = [{"batch_id": "x", "number": 2}, {"batch_id": "y", "number": 1}]
        return sorted(connection.execute(query, {"rows": as_document(rows)}).scalars())

    assert await database.write(read) == [2, 3, 3]


async def test_nothing_is_no_statement(database: Database) -> None:
    statements: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))

    def write(connection: Connection) -> None:
        statements.clear()
        insert_many(connection, batch_events, [])
        update_many(connection, batch_events, [])
        raise_many(connection, offsets, [], by=("consumer",), what="position")
        assert insert_new_many(connection, batch_events, [], batch_events.c.number) == set()
        assert statements == []

    await database.write(write)


async def test_many_rows_are_one_statement_where_they_travel(postgres_url: str) -> None:
    statements: list[str] = []
    async with opened(Database(postgres_url)) as database:
        event.listen(database.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
        with database.engine.begin() as connection:
            insert_many(connection, batch_events, [_told(number) for number in range(500)])
    assert len(statements) == 1


async def test_what_a_database_cannot_keep_is_refused(postgres_url: str) -> None:
    async with opened(Database(postgres_url)) as database:
        with pytest.raises(StoreError, match="refused"):
            await database.write(lambda c: insert_many(c, batch_events, [_told(1, data="a\0b")]))
        assert await _all(database) == []


def _offsets(numbers: range, position: int) -> Callable[[Connection], None]:
    rows = [{"consumer": "c", "topic": "t", "partition": at, "token": "mine", "position": position} for at in numbers]
    by = ("consumer", "topic", "partition", "token")
    return lambda connection: raise_many(connection, offsets, rows, by=by, what="position")


async def _positions(database: Database) -> list[int]:
    query = select(offsets.c.position).order_by(offsets.c.partition)
    return await database.read(lambda connection: list(connection.execute(query).scalars()))


async def test_a_position_only_rises_and_only_where_it_is_ours(database: Database) -> None:
    def write(connection: Connection) -> None:
        row = {"consumer": "c", "topic": "t", "lease_until": 0}
        tokens = ["mine", "mine", "theirs"]
        rows = [{**row, "partition": at, "token": token, "position": 5} for at, token in enumerate(tokens)]
        insert_many(connection, offsets, rows)
        _offsets(range(3), 7)(connection)
        _offsets(range(1), 6)(connection)

    await database.write(write)
    assert await _positions(database) == [7, 7, 5]


async def test_two_who_raise_the_same_rows_in_another_order_wait_for_each_other(database: Database) -> None:
    """Not both at once: that would cost the server's patience, and one of them its transaction."""

    def write(connection: Connection) -> None:
        row = {"consumer": "c", "topic": "t", "token": "mine", "position": 0}
        insert_many(connection, offsets, [{**row, "partition": at} for at in range(50)])

    await database.write(write)
    up, down = range(50), range(49, -1, -1)
    calls = [_offsets(up if number % 2 else down, number) for number in range(1, 41)]
    await asyncio.gather(*(database.write(call) for call in calls))
    assert await _positions(database) == [40] * 50
