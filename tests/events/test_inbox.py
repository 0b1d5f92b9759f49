"""What is in the inbox when an instance dies between two of its notes: nothing is lost, and nothing overtakes."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import select
from tests.opening import opened

from rota.core.task_type import RetryPolicy
from rota.database import Database
from rota.database.tables.events import inbox as table
from rota.events.delivery import Begin, after_failure
from rota.events.inbox import Arrived, Inbox

LATER = 60_000
OVER = -1
"""The lease of somebody who is dead."""


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def database(request: pytest.FixtureRequest) -> AsyncGenerator[Database]:
    async with opened(Database(str(request.getfixturevalue(str(request.param))))) as database:
        yield database


def _arrived(event_id: str, key: str = "k") -> Arrived:
    return Arrived(event_id, "t", key, None, f"envelope of {event_id}")


def _inbox(database: Database, token: str, lease_ms: int = LATER) -> Inbox:
    return Inbox(database, "mail", token, lease_ms=lease_ms)


async def _begin(database: Database, inbox: Inbox, *event_ids: str) -> list[Begin]:
    arrived = [_arrived(event_id) for event_id in event_ids]
    return [known.begin for known in await database.write(lambda connection: inbox.begin(connection, arrived))]


async def _fail(database: Database, inbox: Inbox, event_id: str) -> None:
    failure = after_failure(ValueError("x"), None, 0, max_attempts=5, retry=RetryPolicy(), now=0, chance=0.0)
    await database.write(lambda connection: inbox.fail(connection, event_id, failure, f"envelope of {event_id}"))


async def _rows(database: Database) -> dict[str, tuple[str, str | None, int]]:
    rows = await database.read(lambda connection: connection.execute(select(table).order_by(table.c.seq)).all())
    return {row.event_id: (row.status, row.envelope, row.crashes) for row in rows}


async def test_what_a_dead_instance_did_not_put_behind_does_not_overtake(database: Database) -> None:
    """It had noted that the first has failed, and died before the second was put behind it."""
    dead = _inbox(database, "dead", OVER)
    assert await _begin(database, dead, "e1", "e2") == [Begin.RUN, Begin.RUN]
    await _fail(database, dead, "e1")
    assert await _begin(database, _inbox(database, "alive"), "e2", "e3") == [Begin.BEHIND, Begin.BEHIND]
    assert await _rows(database) == {
        "e1": ("retrying", "envelope of e1", 0),
        "e2": ("retrying", "envelope of e2", 1),
        "e3": ("retrying", "envelope of e3", 0),
    }


async def test_what_a_dead_instance_had_started_can_be_put_behind(database: Database) -> None:
    """Whoever took over fails with the first: the second is then in the inbox with all that it carries."""
    assert await _begin(database, _inbox(database, "dead", OVER), "e1", "e2") == [Begin.RUN, Begin.RUN]
    alive = _inbox(database, "alive")
    assert await _begin(database, alive, "e1") == [Begin.RUN]
    await _fail(database, alive, "e1")
    assert await database.write(lambda connection: alive.put_behind(connection, _arrived("e2")))
    assert (await _rows(database))["e2"] == ("retrying", "envelope of e2", 1)


async def test_what_another_one_has_is_not_put_behind(database: Database) -> None:
    """It may be alive: its event is not ours to move, and not done either."""
    assert await _begin(database, _inbox(database, "other"), "e2") == [Begin.RUN]
    alive = _inbox(database, "alive")
    assert not await database.write(lambda connection: alive.put_behind(connection, _arrived("e2")))
    assert (await _rows(database))["e2"][0] == "started"


async def test_what_waits_behind_an_event_does_not_hold_it_up(database: Database) -> None:
    dead = _inbox(database, "dead", OVER)
    assert await _begin(database, dead, "e1", "e2") == [Begin.RUN, Begin.RUN]
    assert await database.write(lambda connection: dead.put_behind(connection, _arrived("e2")))
    assert await _begin(database, _inbox(database, "alive"), "e1") == [Begin.RUN]
