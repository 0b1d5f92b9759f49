"""Events in every state, for the tests of what people see of them and do about them."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, insert, select, update

from rota import Rota
from rota.access import AuditLog, AuditQuery, Principal
from rota.database import Database
from rota.database.tables.events import inbox, offsets, outbox
from rota.events import Event
from rota.events.kept import Kept, keep
from rota.events.operator import EventOperator
from rota.events.part import EventsPart

__all__ = [
    "TOPIC",
    "acted",
    "an_operator",
    "dead_letter",
    "published",
    "read_up_to",
    "refused",
    "rows",
    "seen",
    "set_all",
]

TOPIC = "rota.shop.order"


def an_operator(app: Rota) -> EventOperator:
    return EventOperator(app.host.part(EventsPart), Principal.at_the_command_line(), app.database)


async def published(app: Rota, *keys: str, **more: Any) -> list[str]:
    """An event of each key in the outbox, not relayed."""
    events = [Event(event_type="Shop.Order.Created", aggregate_id=key, payload={"of": key}, **more) for key in keys]
    return await (await app.events()).outbox.publish(*events)


async def seen(database: Database, event_id: str, consumer: str = "billing", **more: Any) -> None:
    """What a consumer has made of an event."""
    row = {"consumer": consumer, "event_id": event_id, "topic": TOPIC, "key": "o1", "status": "done", "at": 1, **more}
    await database.write(lambda connection: connection.execute(insert(inbox).values(row)))


async def dead_letter(database: Database, event_id: str, consumer: str = "billing", **more: Any) -> None:
    kept = keep(Kept(0, "1", {"event_type": "Shop.Order.Created"}, json.dumps({"event_id": event_id, "payload": 12})))
    given = {"status": "dead", "attempts": 5, "crashes": 2, "error_class": "ValueError", "error": "it broke <b>"}
    await seen(database, event_id, consumer, **{**given, "envelope": kept, **more})


async def refused(app: Rota, *keys: str) -> list[str]:
    """Events that the bus will never take."""
    ids = await published(app, *keys)
    await set_all(await app.database(), outbox, status="dead", error="too large", sent_at=1)
    return ids


async def set_all(database: Database, table: Any, **values: Any) -> None:
    await database.write(lambda connection: connection.execute(update(table).values(values)))


async def read_up_to(database: Database, consumer: str, position: int, partitions: int = 16) -> None:
    """A consumer of the local bus that has read so far."""
    places = [
        {"consumer": consumer, "topic": TOPIC, "partition": number, "position": position}
        for number in range(partitions)
    ]
    await database.write(lambda connection: connection.execute(insert(offsets), places))


async def rows(database: Database, table: Any) -> list[Any]:
    def read(connection: Connection) -> list[Any]:
        return list(connection.execute(select(table).order_by(table.c.seq)).all())

    return await database.read(read)


async def acted(database: Database) -> list[tuple[str, str, str]]:
    """What the audit log has, oldest first: action, target, outcome."""
    entries, _ = await AuditLog(database).page(AuditQuery())
    return [(entry.action, entry.target, (entry.outcome or "").partition(":")[0]) for entry in reversed(entries)]
