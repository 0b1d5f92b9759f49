"""Forgetting: what has outlived its retention is deleted.

The rule is a date, not a draw: the same data and the same instant give the same answer, and a dry run says it first.

- A source that was merged goes one retention after the merge: what it said lives on.
- A context goes one retention after it last changed, if its importance is below 5.
- From 5 on it lives longer: retention x 10 / (10 - importance), times the number of contexts that it stands for
  (importance 5: twice as long; 9: ten times). Importance 10 stays until somebody deletes it.

The result of a merge takes its sources along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from sqlalchemy import BigInteger, ColumnElement, Connection, and_, cast, func, or_, select

from rota.clock import DAY, Instant, Millis
from rota.database.tables.memory import contexts as table
from rota.memory.compression import Budget
from rota.memory.context import MAX_IMPORTANCE, State
from rota.memory.contexts import Contexts

__all__ = ["RETENTION_DAYS", "Cleaned", "Cleanup", "lifetime_ms"]

RETENTION_DAYS: Final = 30
SLICE: Final = 500
"""Contexts that one transaction deletes."""
SHOWN: Final = 100
"""Ids that a dry run names."""
_IMPORTANT: Final = 5


class Cleaned(msgspec.Struct):
    """What was deleted; in a dry run, what would be."""

    deleted: int = 0
    sources: int = 0
    """Of them, sources of a merge."""
    is_dry: bool = False
    is_finished: bool = True
    ids: list[int] = []
    """The first ones, in a dry run."""

    def to_dict(self) -> dict[str, object]:
        return msgspec.to_builtins(self)


def lifetime_ms(importance: int, merge_count: int, retention_ms: Millis) -> Millis | None:
    """How long a context lives after it last changed; None for ever."""
    if importance >= MAX_IMPORTANCE:
        return None
    if importance < _IMPORTANT:
        return retention_ms
    return retention_ms * 10 // (10 - importance) * max(1, merge_count)


class Cleanup:
    """Deletes what has outlived its retention, of all users."""

    def __init__(self, contexts: Contexts, retention_days: int = RETENTION_DAYS) -> None:
        self._contexts = contexts
        self._retention_ms: Millis = retention_days * DAY

    async def cleanup_expired_data(
        self, budget: Budget | None = None, report: Callable[[Cleaned], None] | None = None, *, dry_run: bool = False
    ) -> Cleaned:
        """Delete a slice at a time, until nothing is left or the budget is spent."""
        now = await self._contexts.database.now()
        if dry_run:
            return await self._contexts.database.read(lambda connection: self._look(connection, now))
        done = Cleaned()
        while budget is None or not budget.is_spent():
            count, sources = await self._contexts.database.write(lambda connection: self._delete(connection, now))
            if count == 0:
                return done
            done.deleted += count
            done.sources += sources
            if report is not None:
                report(done)
        done.is_finished = False
        return done

    def _look(self, connection: Connection, now: Instant) -> Cleaned:
        expired = _expired(now, self._retention_ms)
        results = select(table.c.id).where(expired, table.c.state != State.MERGED)
        gone = or_(expired, table.c.merged_into.in_(results))
        is_source = table.c.state == State.MERGED
        count = connection.execute(select(func.count()).select_from(table).where(gone)).scalar_one()
        sources = connection.execute(select(func.count()).select_from(table).where(gone, is_source)).scalar_one()
        ids = connection.execute(select(table.c.id).where(gone).order_by(table.c.id).limit(SHOWN)).scalars()
        return Cleaned(count, sources, is_dry=True, ids=list(ids))

    def _delete(self, connection: Connection, now: Instant) -> tuple[int, int]:
        """One slice with its sources, in the caller's transaction; how many contexts, and how many sources of them."""
        statement = select(table.c.id, table.c.state).where(_expired(now, self._retention_ms))
        rows = connection.execute(statement.order_by(table.c.updated_at, table.c.id).limit(SLICE)).all()
        ids = [row[0] for row in rows]
        sources = sum(row[1] == State.MERGED for row in rows)
        with_them = connection.execute(table.delete().where(table.c.merged_into.in_(ids))).rowcount if ids else 0
        deleted = connection.execute(table.delete().where(table.c.id.in_(ids))).rowcount if ids else 0
        # A source and its result may lie in one slice: then it went with the result.
        return with_them + deleted, with_them + sources - (len(ids) - deleted)


def _expired(now: Instant, retention_ms: Millis) -> ColumnElement[bool]:
    """`lifetime_ms` as a condition. Whatever lives longest, nothing goes before one retention: an index knows those."""
    merged = and_(table.c.state == State.MERGED, table.c.compressed_at <= now - retention_ms)
    live = table.c.state != State.MERGED
    little = and_(live, table.c.importance < _IMPORTANT)
    # As large as an instant: the product does not fit what PostgreSQL takes for a count.
    stands_for = cast(func.coalesce(func.nullif(table.c.merge_count, 0), 1), BigInteger)
    important = [
        and_(
            live,
            table.c.importance == importance,
            table.c.updated_at + (lifetime_ms(importance, 1, retention_ms) or 0) * stands_for <= now,
        )
        for importance in range(_IMPORTANT, MAX_IMPORTANCE)
    ]
    return and_(table.c.updated_at <= now - retention_ms, or_(merged, little, *important))
