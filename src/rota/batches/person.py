"""What batches know about a user: what was asked for on their behalf, and what came of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, select

from rota.batches.keeper import remove
from rota.batches.rows import batch_of
from rota.clock import isoformat
from rota.database import Database
from rota.database.tables.batches import batch_items, batches

__all__ = ["erase_user", "export_user"]

PAGE: Final = 100


async def erase_user(database: Database, user_id: str) -> int:
    """Remove their batches with all that came of them; how many that were. What still runs for one finds it gone."""
    erased = 0
    while True:
        ids = await database.write(lambda connection: _erase_page(connection, user_id))
        erased += len(ids)
        if len(ids) < PAGE:
            return erased


def _erase_page(connection: Connection, user_id: str) -> list[str]:
    ids = list(connection.execute(select(batches.c.id).where(batches.c.user_id == user_id).limit(PAGE)).scalars())
    if ids:
        remove(connection, ids)
    return ids


async def export_user(database: Database, user_id: str) -> AsyncIterator[Mapping[str, object]]:
    """One mapping for each batch, and one for each of its items, with its `kind`."""
    after = ""
    while True:
        query = select(batches).where(batches.c.user_id == user_id, batches.c.id > after).order_by(batches.c.id)
        rows = await database.read(lambda c, query=query: c.execute(query.limit(PAGE)).all())
        for row in rows:
            yield {"kind": "batch", **batch_of(row).to_dict()}
            async for item in _items(database, row.id):
                yield item
        if len(rows) < PAGE:
            return
        after = rows[-1].id


async def _items(database: Database, batch_id: str) -> AsyncIterator[Mapping[str, object]]:
    query = select(batch_items).where(batch_items.c.batch_id == batch_id).order_by(batch_items.c.number)

    def read(connection: Connection) -> list[Any]:
        return list(connection.execute(query).all())

    for row in await database.read(read):
        yield {
            "kind": "batch_item",
            "batch_id": batch_id,
            "number": row.number,
            "name": row.name,
            "fields": msgspec.json.decode(row.fields),
            "outcome": row.outcome,
            "at": isoformat(row.at),
        }
