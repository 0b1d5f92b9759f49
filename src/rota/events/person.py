"""What events know about a user: what was published about them, what consumers made of it, and flows that wait.

What was sent to Kafka or Redis is on that bus, and goes when the bus removes it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from sqlalchemy import Connection, Table, delete, select, update

from rota.clock import isoformat
from rota.database import Database
from rota.database.tables.events import inbox, outbox
from rota.events.handles import Handles
from rota.events.reading import event_view, handled_view

__all__ = ["erase_user", "export_user"]

PAGE: Final = 500


async def erase_user(database: Database, user_id: str) -> dict[str, int]:
    """Remove it all. That a consumer has seen an event stays, as an id that says nothing: else a bus that brings the
    event once more would have it handled, for somebody who is gone."""
    handles = Handles(database)
    erased = {"events": 0, "received_events": 0, "handles": 0}
    while True:
        events, received = await database.write(lambda connection: _erase_page(connection, user_id))
        erased["events"] += events
        erased["received_events"] += received
        if max(events, received) < PAGE:
            break
    erased["handles"] = await database.write(lambda connection: handles.erase_user(connection, user_id))
    return erased


def _erase_page(connection: Connection, user_id: str) -> tuple[int, int]:
    events = _some(connection, outbox, user_id)
    received = _some(connection, inbox, user_id)
    connection.execute(delete(outbox).where(outbox.c.seq.in_(events)))
    nothing = {"user_id": None, "key": "", "envelope": None, "error": None, "error_class": None}
    # Whoever handles one of them at this moment loses it, and what they did for it is undone.
    seen = {"status": "done", "lease_until": 0, "lease_token": None, **nothing}
    connection.execute(update(inbox).where(inbox.c.seq.in_(received)).values(seen))
    return len(events), len(received)


def _some(connection: Connection, table: Table, user_id: str) -> list[int]:
    return list(connection.execute(select(table.c.seq).where(table.c.user_id == user_id).limit(PAGE)).scalars())


async def export_user(database: Database, user_id: str) -> AsyncIterator[Mapping[str, object]]:
    """One mapping for each row, with its `kind`."""
    async for row in _rows(database, outbox, user_id):
        yield {"kind": "event", **event_view(row).to_dict()}
    async for row in _rows(database, inbox, user_id):
        yield {"kind": "received_event", **handled_view(row).to_dict()}
    handles = Handles(database)
    for handle in await database.read(lambda connection: handles.export_user(connection, user_id)):
        times = {name: isoformat(value) for name, value in handle.items() if name.endswith("_at")}
        yield {"kind": "handle", **handle, **times}


async def _rows(database: Database, table: Table, user_id: str) -> AsyncIterator[Any]:
    after = 0
    while True:
        query = select(table).where(table.c.user_id == user_id, table.c.seq > after).order_by(table.c.seq).limit(PAGE)
        rows = await database.read(lambda connection, query=query: connection.execute(query).all())
        for row in rows:
            yield row
        if len(rows) < PAGE:
            return
        after = rows[-1].seq
