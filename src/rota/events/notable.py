"""What of events a person should look at now: what was given up, and an outbox that nobody empties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, func, literal_column, select

from rota.clock import MINUTE, Instant, Millis, format_duration
from rota.database import Database
from rota.database.tables.events import inbox, outbox
from rota.events.reading import waited_ms
from rota.part import Attention

__all__ = ["PATIENCE_MS", "attention"]

PATIENCE_MS: Final[Millis] = 5 * MINUTE
"""An event that has waited for longer is waited for by somebody."""
MOST_COUNTED: Final = 1_000
"""It is asked for several times a second: beyond so many, people read "more than"."""
PATH: Final = "/events"


async def attention(database: Database) -> Sequence[Attention]:
    """One line for dead letters, and one for an outbox that waits."""
    return await database.read(lambda connection: _found(connection, database.backend.dialect.now(connection)))


def _found(connection: Connection, now: Instant) -> list[Attention]:
    dead, since_at = _dead(connection)
    found: list[Attention] = []
    if dead:
        many = "1 event was" if dead == 1 else f"{_number(dead)} events were"
        found.append(Attention("Dead events", f"{many} given up. Redrive or purge them.", since_at or now, PATH))
    waited = waited_ms(connection, now)
    if waited is not None and waited > PATIENCE_MS:
        long = format_duration(waited - waited % 1_000)
        text = f"The first event in the outbox has waited for {long}: no worker relays, or the bus is away."
        found.append(Attention("Outbox waits", text, now - waited, PATH))
    return found


def _dead(connection: Connection) -> tuple[int, Instant | None]:
    """How many dead letters there are at consumers and in the outbox, and since when the newest."""
    count, newest = 0, None
    for table, at in ((inbox, inbox.c.at), (outbox, outbox.c.sent_at)):
        is_dead = table.c.status == literal_column("'dead'")
        some = select(at.label("at")).where(is_dead).order_by(table.c.seq.desc()).limit(MOST_COUNTED + 1).subquery()
        row: Any = connection.execute(select(func.count(), func.max(some.c.at)).select_from(some)).one()
        count += row[0]
        newest = max((one for one in (newest, row[1]) if one is not None), default=None)
    return count, newest


def _number(count: int) -> str:
    return f"{count:,}" if count <= MOST_COUNTED else f"More than {MOST_COUNTED:,}"
