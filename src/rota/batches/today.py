"""The day of batches in a few numbers: what has ended well, what came, and how soon the first items were there."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import Connection, func, literal_column, select

from rota.batches.figures import quantile
from rota.clock import HOUR, Instant, Millis
from rota.database import Database
from rota.database.tables.batches import batches
from rota.events.envelope import uuid7

__all__ = ["Today", "today"]

NEWEST: Final = 1_000
"""So many of the newest batches tell how soon the first items came: enough for a quantile, however many there are."""

_b = batches.c
_IS_COMPLETED: Final = _b.status == literal_column("'completed'")


class Today(NamedTuple):
    """What a page has at its top."""

    completed: int
    """Batches that have ended well since the day began."""
    items: int
    """Items of the batches that were asked for since then."""
    measured: int
    """Batches of the last hour that have had their first response."""
    first_p50_ms: Millis | None
    first_p95_ms: Millis | None


async def today(database: Database, now: Instant, day_began_at: Instant) -> Today:
    """How batches do."""
    ended = select(func.count()).select_from(batches).where(_IS_COMPLETED, _b.ended_at >= day_began_at)
    came = select(func.coalesce(func.sum(_b["items"]), 0)).where(_b.id >= _first_id(day_began_at))
    firsts = (
        select(_b.first_at - _b.created_at)
        .where(_b.id >= _first_id(now - HOUR), _b.first_at.is_not(None))
        .order_by(_b.id.desc())
        .limit(NEWEST)
    )

    def read(connection: Connection) -> Today:
        waits: list[float] = list(connection.execute(firsts).scalars())
        return Today(
            completed=int(connection.execute(ended).scalar_one()),
            items=int(connection.execute(came).scalar_one()),
            measured=len(waits),
            first_p50_ms=round(quantile(waits, 0.5)) if waits else None,
            first_p95_ms=round(quantile(waits, 0.95)) if waits else None,
        )

    return await database.read(read)


def _first_id(at: Instant) -> str:
    """The least id that a batch of this moment can have: ids begin with the time, so their index is one of time."""
    return uuid7(at, bytes(10))
