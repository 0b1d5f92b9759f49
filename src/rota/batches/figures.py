"""How batches went in the last while, read from their rows. Ids sort by time, so no more is read than that while."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, func, literal_column, select

from rota.clock import SECOND, Millis
from rota.database import Database
from rota.database.tables.batches import batch_subtasks, batches
from rota.events.envelope import uuid7

__all__ = ["Figures", "figures_of", "quantile", "waiting_by_priority"]

MOST: Final = 100_000

_SUBTASKS: Final = (
    select(batch_subtasks.c.status, batch_subtasks.c.errors)
    .where(batch_subtasks.c.id >= bindparam("since"), batch_subtasks.c.status.in_(["done", "failed"]))
    .limit(MOST)
)
_FIRSTS: Final = (
    select(batches.c.first_at - batches.c.created_at)
    .where(batches.c.id >= bindparam("since"), batches.c.first_at.is_not(None))
    .limit(MOST)
)
_WAITING: Final = (
    select(batches.c.priority, func.count())
    .join(batch_subtasks, batch_subtasks.c.batch_id == batches.c.id)
    .where(batch_subtasks.c.status == literal_column("'queued'"))
    .group_by(batches.c.priority)
    .order_by(batches.c.priority)
)


def waiting_by_priority(connection: Connection) -> dict[int, int]:
    """How many subtasks wait for their turn, by the priority of their batch."""
    return {int(priority): int(count) for priority, count in connection.execute(_WAITING)}


class Figures(NamedTuple):
    """Of the batches that were asked for in the last while."""

    ended: int
    failed: int
    retried: int
    """Subtasks that have failed at least once and have ended,"""
    rescued: int
    """and those of them that came to a good end."""
    first_seconds: list[float]

    @property
    def first_p95(self) -> float:
        return quantile(self.first_seconds, 0.95)


def quantile(values: list[float], share: float) -> float:
    """The value that so large a share of them does not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def figures_of(database: Database, window_ms: Millis) -> Figures:
    """Those of the last while, by the database's clock."""

    def read(connection: Connection) -> Figures:
        now = database.backend.dialect.now(connection)
        since = {"since": uuid7(max(now - window_ms, 0), bytes(10))}
        subtasks = connection.execute(_SUBTASKS, since).all()
        firsts = connection.execute(_FIRSTS, since).scalars().all()
        retried = [row for row in subtasks if row.errors]
        return Figures(
            ended=len(subtasks),
            failed=sum(row.status == "failed" for row in subtasks),
            retried=len(retried),
            rescued=sum(row.status == "done" for row in retried),
            first_seconds=[first / SECOND for first in firsts],
        )

    return await database.read(read)
