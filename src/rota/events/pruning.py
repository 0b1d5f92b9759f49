"""Retention of events: one instance at a time removes what is old enough, a little in each transaction.

What was sent goes after `events.retention`, once every consumer that the local bus knows has read it; after
`events.dead_retention` it goes anyway, because a consumer that is gone for good must not keep everything. What a
consumer has done is remembered for as long as the event itself could come again: that makes effects happen once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, exists, literal_column, or_, select

from rota.clock import MINUTE, Instant, Millis
from rota.database import Database
from rota.database.leases import DatabaseLease
from rota.database.tables.events import inbox, offsets, outbox
from rota.errors import BusAway, StoreError
from rota.events.events import Events
from rota.events.handles import Handles
from rota.logs import get_logger
from rota.runtime.duty import Duty, DutyContext

__all__ = ["EventPruner", "PrunedEvents"]

PERIOD_SECONDS: Final = 300.0
IDLE_SECONDS: Final = 60.0
"""How often it is looked whether somebody wants a database by now."""
BATCH: Final = 1_000
MAX_BATCHES: Final = 100
"""In one pass: a mountain of old events is removed over several passes, not in one go."""
TURN_MS: Final[Millis] = 10 * MINUTE
"""Two periods: whoever prunes keeps the turn, and another takes over if it dies."""

log = get_logger("rota.events")


class PrunedEvents(NamedTuple):
    """How much one pass has removed."""

    was_ours: bool = False
    """Whether it was this instance's turn."""
    sent: int = 0
    refused: int = 0
    done: int = 0
    dead: int = 0
    handles: int = 0
    trimmed: int = 0
    """What was removed from the bus."""
    is_idle: bool = False
    """Whether there is no database to prune."""


class EventPruner(Duty[PrunedEvents]):
    """One instance's. Those that do not have the turn do nothing."""

    name = "event pruner"
    patience = 3 * PERIOD_SECONDS

    def __init__(
        self, open_events: Callable[[], Awaitable[Events | None]], context: DutyContext, *, batch: int = BATCH
    ) -> None:
        super().__init__(context.pulse, context.chance)
        self._open = open_events
        self._instance = context.instance
        self._batch = batch
        self._turn: DatabaseLease | None = None

    async def run_once(self, now: Instant | None = None) -> PrunedEvents:
        events = await self._open()
        if events is None:
            return PrunedEvents(is_idle=True)
        self._turn = DatabaseLease(events.database, "event pruner", self._instance)
        if not await self._turn.take(TURN_MS):
            return PrunedEvents()
        return await self._prune(events)

    async def close(self) -> None:
        if self._turn is not None:
            with suppress(StoreError):  # then it ends by itself
                await self._turn.give_back()

    def pause_after(self, report: PrunedEvents) -> float:
        # Instances that were started together drift apart.
        return (IDLE_SECONDS if report.is_idle else PERIOD_SECONDS) * (0.75 + 0.5 * self._chance())

    async def _prune(self, events: Events) -> PrunedEvents:
        now = await events.database.read(events.database.backend.dialect.now)
        kept_until = now - events.config.retention_ms
        dead_until = now - events.config.dead_retention_ms
        sweep = _Sweep(events.database, self._batch, lambda: self.is_stopping)
        # Events before what is known of them: a consumer forgets an event only when it is gone.
        sent = await sweep(outbox, _SENT, outbox.c.sent_at, kept_until, or_(~_UNREAD, outbox.c.sent_at < dead_until))
        refused = await sweep(outbox, _REFUSED, outbox.c.sent_at, dead_until)
        done = await sweep(inbox, _DONE, inbox.c.at, kept_until, ~_IN_OUTBOX)
        dead = await sweep(inbox, _DEAD, inbox.c.at, dead_until)
        handles = await self._prune_handles(events)
        return PrunedEvents(True, sent, refused, done, dead, handles, await self._trim(events))

    async def _prune_handles(self, events: Events) -> int:
        handles, removed = Handles(events.database), 0
        for _ in range(MAX_BATCHES):
            more = await handles.prune(events.config.retention_ms, self._batch)
            removed += more
            if more < self._batch or self.is_stopping:
                break
        return removed

    async def _trim(self, events: Events) -> int:
        try:
            return await events.bus.trim(events.config.retention_ms)
        except BusAway as error:
            # It is trimmed when it is back; nobody has to know who can do nothing about it.
            log.warning("bus not trimmed", bus=events.bus.name, error=str(error))
            return 0


class _Sweep:
    """Removes old rows of a table, page by page in the order of their age."""

    def __init__(self, database: Database, batch: int, is_stopping: Callable[[], bool]) -> None:
        self._database = database
        self._batch = batch
        self._is_stopping = is_stopping

    async def __call__(
        self,
        table: Table,
        which: ColumnElement[bool],
        age: ColumnElement[Any],
        before: Instant,
        may_go: ColumnElement[bool] | None = None,
    ) -> int:
        """Of those that are older: all, or those that may go. The others are passed over until the next time."""
        removed, after = 0, (-1, -1)
        for _ in range(MAX_BATCHES):
            page = await self._page(table, and_(which, age < before), age, after)
            if not page:
                break
            seqs = [row.seq for row in page]
            going = delete(table).where(table.c.seq.in_(seqs), which, age < before)
            statement = going if may_go is None else going.where(may_go)
            removed += await self._database.write(lambda c, statement=statement: c.execute(statement).rowcount)
            after = page[-1].age, page[-1].seq
            if len(page) < self._batch or self._is_stopping():
                break
        return removed

    async def _page(
        self, table: Table, which: ColumnElement[bool], age: ColumnElement[Any], after: tuple[int, int]
    ) -> Sequence[Any]:
        at, seq = after
        query = (
            select(table.c.seq, age.label("age"))
            .where(which, age >= at, or_(age > at, table.c.seq > seq))
            .order_by(age, table.c.seq)
            .limit(self._batch)
        )

        def read(connection: Connection) -> Sequence[Any]:
            return connection.execute(query).all()

        return await self._database.read(read)


def _is(table: Table, status: str) -> ColumnElement[bool]:
    # Written out, not bound: SQLite uses a partial index only where the query says what the index says.
    return table.c.status == literal_column(f"'{status}'")


_SENT: Final = _is(outbox, "sent")
_REFUSED: Final = _is(outbox, "dead")
_DONE: Final = _is(inbox, "done")
_DEAD: Final = _is(inbox, "dead")
_UNREAD: Final = exists().where(
    offsets.c.topic == outbox.c.topic,
    offsets.c.partition == outbox.c.partition,
    offsets.c.position < outbox.c.position,
)
"""A consumer has not read it yet. On other buses an event has no position: they know by themselves who has read it."""
_IN_OUTBOX: Final = exists().where(outbox.c.event_id == inbox.c.event_id)
