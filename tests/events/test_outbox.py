"""An event is added in whatever transaction has the effect that it tells of: Rota's own, or the application's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from sqlalchemy import create_engine, event, make_url, select, text
from sqlalchemy.orm import Session
from tests.opening import opened

from rota.database import Database
from rota.database.tables.events import outbox as table
from rota.errors import InvalidInput
from rota.events.envelope import MAX_PAYLOAD_BYTES, Event
from rota.events.outbox import OUTBOX_CHANGED, Outbox
from rota.events.tracing import handling
from rota.testing.waiting import PATIENCE

TYPE = "Shop.Order.Created"


@pytest.fixture(params=["sqlite_url", "postgres_url"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(str(request.param)))


@pytest.fixture
async def database(url: str) -> AsyncGenerator[Database]:
    async with opened(Database(url)) as database:
        yield database


async def _rows(database: Database) -> list[Any]:
    query = select(table).order_by(table.c.seq)
    return list(await database.read(lambda connection: connection.execute(query).all()))


async def test_what_is_left_out_is_filled_in(database: Database) -> None:
    outbox = Outbox(database, prefix="rota.", partitions=4)
    ids = await outbox.publish(
        Event(event_type=TYPE, aggregate_id="o1", payload={"n": 1}),
        Event(event_type=TYPE, aggregate_id="o2", key="k", topic="mine", event_id="given", aggregate_type="Thing"),
    )
    first, second = await _rows(database)
    assert ids == [first.event_id, "given"]
    assert (first.topic, first.key, first.aggregate_type, first.payload) == (
        "rota.shop.order",
        "o1",
        "ShopOrder",
        '{"n":1}',
    )
    assert (second.topic, second.key, second.aggregate_type, second.payload) == ("mine", "k", "Thing", "null")
    assert (first.status, first.attempts, first.lease_until, first.position) == ("new", 0, 0, None)
    assert 0 <= first.partition < 4
    assert first.occurred_at > 0


async def test_one_that_is_no_good_is_refused_before_anything_is_written(database: Database) -> None:
    outbox = Outbox(database)
    good = Event(event_type=TYPE, aggregate_id="o1")
    for bad in (
        Event(event_type="Shop.Order.Create", aggregate_id="o1"),
        Event(event_type=TYPE, aggregate_id=""),
        Event(event_type=TYPE, aggregate_id="o1", payload="x" * MAX_PAYLOAD_BYTES),
    ):
        with pytest.raises(InvalidInput):
            await database.write(lambda connection, bad=bad: outbox.add(connection, good, bad))
    assert await _rows(database) == []


async def test_a_session_of_the_application_on_its_own_connection(database: Database, url: str) -> None:
    """The application's engine knows nothing of Rota: on PostgreSQL its tables are elsewhere."""
    outbox = Outbox(database)
    engine = _own_engine(url)

    def work(number: int, *, is_kept: bool) -> None:
        with Session(engine) as session:
            session.execute(text("INSERT INTO orders VALUES (:n)"), {"n": number})
            outbox.add(session, Event(event_type=TYPE, aggregate_id=f"o{number}"))
            if is_kept:
                session.commit()

    def prepare() -> None:
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE orders (n INTEGER)"))

    await asyncio.to_thread(prepare)
    try:
        with await database.changes.subscribe(OUTBOX_CHANGED) as heard:
            await asyncio.to_thread(work, 1, is_kept=True)
            assert await heard.wait(PATIENCE), "the relay hears of it"
        await asyncio.to_thread(work, 2, is_kept=False)
        with engine.connect() as connection:
            assert connection.execute(text("SELECT n FROM orders")).scalars().all() == [1]
        assert [row.aggregate_id for row in await _rows(database)] == ["o1"]
    finally:
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE orders"))
        engine.dispose()


def _own_engine(url: str) -> Any:
    given = make_url(url)
    if given.drivername.startswith("sqlite"):
        engine = create_engine(given.set(query={}))

        @event.listens_for(engine, "connect")
        def _wait(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA busy_timeout = 30000")

        return engine
    query = {name: value for name, value in given.query.items() if name != "options"}
    return create_engine(given.set(drivername="postgresql+psycopg", query=query))


async def test_one_transaction_has_all_of_its_events_or_none(database: Database) -> None:
    outbox = Outbox(database)
    await outbox.publish(Event(event_type=TYPE, aggregate_id="o1", event_id="same"))
    with pytest.raises(Exception, match="refused the call"):
        await outbox.publish(
            Event(event_type=TYPE, aggregate_id="o2"), Event(event_type=TYPE, aggregate_id="o3", event_id="same")
        )
    assert [row.aggregate_id for row in await _rows(database)] == ["o1"]


async def test_the_trace_of_an_event_is_handed_on(database: Database) -> None:
    from rota.events.tracing import current_trace

    outbox = Outbox(database, trace=current_trace)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with handling(None, "mail", Event(event_type=TYPE, aggregate_id="o1", headers={"traceparent": trace})):
        await outbox.publish(Event(event_type=TYPE, aggregate_id="o2"))
        await database.write(lambda connection: outbox.add(connection, Event(event_type=TYPE, aggregate_id="o3")))
    await outbox.publish(Event(event_type=TYPE, aggregate_id="o4"))
    headers = [row.headers for row in await _rows(database)]
    assert ["0af7651916cd43dd8448eb211c80319c" in each for each in headers] == [True, True, False]
