"""The outbox: an event is added in the transaction whose effect it tells of. Both are committed, or neither is.

    await database.write(lambda connection: outbox.add(connection, Event(...)))

A connection or a session of the application's own will do as well, as long as it leads to Rota's database: the relay
hears of the commit, whoever makes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection

from rota.codec import warmed
from rota.database import Database
from rota.database.many import insert_many
from rota.database.tables.events import outbox
from rota.errors import InvalidInput
from rota.events.envelope import Event, encode, partition_of, payload_json, topic_of, uuid7

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

__all__ = ["OUTBOX_CHANGED", "Outbox", "headers_of", "value_of_row"]

OUTBOX_CHANGED: Final = "outbox"
"""The topic of whoever waits for something to publish."""
MAX_ADDED: Final = 10_000
"""So many events may be added by one call."""

_HEADERS: Final = warmed(msgspec.json.Decoder(dict[str, str]), "{}")


class Outbox:
    """What is to be published, in one database.

    `prefix` stands before every topic, `partitions` is how many a topic has. `trace` gives the headers that belong to
    whatever runs now, so that one trace leads from a request to its result. `on_added` is told of events that belong
    to something (`correlation_id`), in the same transaction: a flow may wait for them.
    """

    def __init__(
        self,
        database: Database,
        *,
        prefix: str = "",
        partitions: int = 16,
        trace: Callable[[], Mapping[str, str]] | None = None,
        on_added: Callable[[Connection, Sequence[Event]], object] | None = None,
        chance: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.database = database
        self.prefix = prefix
        self.partitions = partitions
        self._trace = trace
        self._on_added = on_added
        self._place: Callable[[Connection], object] | None = None
        self._chance = chance

    def with_places(self, place: Callable[[Connection], object]) -> Outbox:
        """The same, for a log that lies in the database: what is added is placed there in the same transaction."""
        placing = copy(self)
        placing._place = place  # noqa: SLF001 - it is one of ours
        return placing

    def add(self, connection: Connection | Session, *events: Event) -> list[str]:
        """Have the events published once this transaction is committed; their ids, in the order given.

        An event that is no good is refused before anything is written. With an `AsyncSession` or an async connection:
        `await session.run_sync(lambda session: outbox.add(session, event))`.
        """
        if not events:
            return []
        if len(events) > MAX_ADDED:
            raise InvalidInput(f"At most {MAX_ADDED:,} events are added at once; these are {len(events):,}.")
        payloads = [payload_json(event.checked().payload) for event in events]
        used = self._connection(connection)
        now = self.database.backend.dialect.now(used)
        trace: Mapping[str, str] = {} if self._trace is None else self._trace()
        rows = [self._row(event, payload, now, trace) for event, payload in zip(events, payloads, strict=True)]
        insert_many(used, outbox, rows)
        if self._place is None:
            self.database.changes.poke(used, OUTBOX_CHANGED)
        else:
            self._place(used)
        if self._on_added is not None:
            added = [replace(event, event_id=row["event_id"]) for event, row in zip(events, rows, strict=True)]
            if belonging := [event for event in added if event.correlation_id is not None]:
                self._on_added(used, belonging)
        return [row["event_id"] for row in rows]

    async def publish(self, *events: Event) -> list[str]:
        """The same in a transaction of its own, for what is no part of a larger one."""
        return await self.database.grouped(lambda connection: self.add(connection, *events))

    def topic_of(self, event_type: str) -> str:
        """The topic of a type's events."""
        return topic_of(event_type, self.prefix)

    def _connection(self, given: Connection | Session) -> Connection:
        connection = given if isinstance(given, Connection) else given.connection()
        if self.database.schema is None or connection.engine in self.database.backend.engines:
            return connection
        # Somebody else's connection may look for our tables elsewhere.
        return connection.execution_options(schema_translate_map={None: self.database.schema})

    def _row(self, event: Event, payload: str, now: int, trace: Mapping[str, str]) -> dict[str, Any]:
        key = event.key or event.aggregate_id
        return {
            "event_id": event.event_id or uuid7(now, self._chance(10)),
            "topic": event.topic or self.topic_of(event.event_type),
            "key": key,
            "partition": partition_of(key, self.partitions),
            "event_type": event.event_type,
            "event_version": event.event_version,
            "aggregate_type": event.aggregate_type or "".join(event.event_type.split(".")[:2]),
            "aggregate_id": event.aggregate_id,
            "correlation_id": event.correlation_id,
            "causation_id": event.causation_id,
            "user_id": event.user_id,
            "headers": msgspec.json.encode({**trace, **event.headers}).decode(),
            "payload": payload,
            "occurred_at": now if event.occurred_at is None else event.occurred_at,
            "status": "new",
        }


def headers_of(row: Any) -> dict[str, str]:
    """What the bus carries beside the envelope."""
    return {**_HEADERS.decode(row.headers), "event_id": row.event_id, "event_type": row.event_type}


def value_of_row(row: Any) -> bytes:
    """The envelope of a row, as every bus carries it. A row has the event's fields under their names."""
    return encode(row, row.payload)
