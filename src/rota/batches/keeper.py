"""Keeps batches in order: what the queue has to be told, what is over, what got lost on the way, and what is old.

Any number of instances may tell the queue and end what is overdue: both are harmless twice. The rest is one instance's
turn at a time:

    the queue has lost a subtask          it is offered again
    its task has ended without a result   it is given up, so that no batch waits for ever
    an agent began and never answered     that attempt has failed
    nobody ever began                     it is asked for once more, in case a bus has lost it
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, and_, bindparam, delete, literal_column, select, update

from rota.batches.batch import Batch, BatchStatus, EndReason, Subtask, SubtaskStatus, SubtaskStep, end_of, moved
from rota.batches.offering import identities_of
from rota.batches.rows import QUEUE_TO_TELL, batch_of, subtask_of
from rota.batches.work import BatchWork
from rota.clock import MINUTE, SECOND, Clock, Instant, Millis
from rota.core.task import Task, TaskStatus
from rota.database.changes import Subscription
from rota.database.leases import DatabaseLease
from rota.database.tables.batches import batch_events, batch_items, batch_subtasks, batches
from rota.database.tables.events import inbox
from rota.errors import StoreError
from rota.logs import get_logger
from rota.runtime.duty import Duty, DutyContext

__all__ = ["Keeper", "KeeperReport", "KeeperSettings"]

IDLE_SECONDS: Final = 5.0
PERIOD_SECONDS: Final = 5.0
"""Who has to be told is woken; deadlines are known. So often it is looked all the same."""
MOST: Final = 500
"""So many rows are looked at in one go."""

_b, _s = batches.c, batch_subtasks.c
_IS_QUEUED: Final = _s.status == literal_column("'queued'")
_IS_DISPATCHED: Final = _s.status == literal_column("'dispatched'")
_IS_OPEN: Final = _b.status.in_([literal_column("'running'"), literal_column("'paused'")])
_UNTOLD: Final = select(batch_subtasks).where(_s.queue_told == literal_column("0")).order_by(_s.created_at).limit(MOST)
_OVERDUE: Final = select(_b.id).where(_IS_OPEN, _b.deadline_at <= bindparam("now")).order_by(_b.deadline_at).limit(50)
_NEXT_DEADLINE: Final = select(_b.deadline_at).where(_IS_OPEN).order_by(_b.deadline_at).limit(1)
_OLD_QUEUED: Final = (
    select(batch_subtasks).where(_IS_QUEUED, _s.created_at <= bindparam("before")).order_by(_s.created_at).limit(MOST)
)
_OLD_DISPATCHED: Final = (
    select(batch_subtasks).where(_IS_DISPATCHED, _s.sent_at <= bindparam("before")).order_by(_s.sent_at).limit(MOST)
)
_UNANSWERED: Final = (
    select(batch_subtasks, inbox.c.status.label("begun"), inbox.c.at.label("begun_at"), inbox.c.error.label("said"))
    .join(batches, _b.id == _s.batch_id)
    .outerjoin(inbox, and_(inbox.c.consumer == _b.agent, inbox.c.event_id == _s.event_id))
    .where(_IS_DISPATCHED, _s.sent_at <= bindparam("before"), _b.status == "running")
    .order_by(_s.sent_at)
    .limit(MOST)
)
_TOLD: Final = (
    update(batch_subtasks).where(_s.id == bindparam("b_id"), _s.status == bindparam("b_status")).values(queue_told=1)
)
_ENDED: Final = (
    select(_b.id).where(_b.ended_at.is_not(None), _b.ended_at < bindparam("before")).order_by(_b.ended_at).limit(100)
)


log = get_logger("rota.batches")


class KeeperSettings(NamedTuple):
    """How long is too long."""

    call_timeout_ms: Millis = MINUTE
    grace_ms: Millis = 10 * SECOND
    """An agent ends a call by itself in time, if it lives."""
    lost_after_ms: Millis = MINUTE
    """A subtask that has waited so long should have a task in the queue."""
    send_again_ms: Millis = 10 * MINUTE
    retention_ms: Millis = 30 * 24 * 60 * MINUTE
    check_seconds: float = 15.0


class KeeperReport(NamedTuple):
    """What one pass has done."""

    told: int = 0
    ended: int = 0
    offered_again: int = 0
    given_up: int = 0
    sent_again: int = 0
    removed: int = 0
    next_deadline_in: Millis | None = None
    is_idle: bool = False


class Keeper(Duty[KeeperReport]):
    """One a process; whoever has the turn does what one is enough for."""

    name = "batch keeper"
    patience = 12 * PERIOD_SECONDS

    def __init__(
        self,
        open_work: Callable[[], Awaitable[BatchWork | None]],
        context: DutyContext,
        settings: KeeperSettings,
        found_open: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(context.pulse, context.chance)
        self._open = open_work
        self._store = context.store
        self._instance = context.instance
        self._clock: Clock = context.clock
        self._settings = settings
        self._found_open = found_open
        """Told when there is a batch that is not over."""
        self._heard: Subscription | None = None
        self._turn: DatabaseLease | None = None
        self._check_at = self._clock.monotonic()

    async def run_once(self, now: Instant | None = None) -> KeeperReport:
        work = await self._open()
        if work is None:
            return KeeperReport(is_idle=True)
        if self._heard is None:
            self._heard = await work.database.changes.subscribe(QUEUE_TO_TELL, on_wake=self.wake)
            self._turn = DatabaseLease(work.database, "batch keeper", self._instance)
        report = KeeperReport(told=await self.tell_queue(work), ended=await self.end_overdue(work))
        if self._clock.monotonic() >= self._check_at and self._turn is not None:
            self._check_at = self._clock.monotonic() + self._settings.check_seconds * (0.75 + 0.5 * self._chance())
            if await self._turn.take(round(2 * self._settings.check_seconds * SECOND)):
                report = await self.put_right(work, report)
        left = await work.database.read(lambda connection: self._next_deadline(connection, work))
        if left is not None:
            self._found_open()
        return report._replace(next_deadline_in=left)

    def pause_after(self, report: KeeperReport) -> float:
        if report.is_idle:
            return IDLE_SECONDS
        if report.told >= MOST:
            return 0.0
        left = PERIOD_SECONDS if report.next_deadline_in is None else max(report.next_deadline_in, 0) / SECOND
        return min(PERIOD_SECONDS, left)

    async def close(self) -> None:
        if self._heard is not None:
            self._heard.close()
        if self._turn is not None:
            with suppress(StoreError):  # then it ends by itself
                await self._turn.give_back()

    def _next_deadline(self, connection: Connection, work: BatchWork) -> Millis | None:
        at = connection.execute(_NEXT_DEADLINE).scalar()
        return None if at is None else at - work.rows.now(connection)

    # --- what any instance may do ---

    async def tell_queue(self, work: BatchWork) -> int:
        """Offer what the queue does not know of, and take out what it need not know of any more."""
        found = await work.database.read(lambda connection: _with_batches(connection, work, _UNTOLD, {}))
        if not found:
            return 0
        # Those of a paused batch are offered when it goes on.
        running = [pair for pair in found if pair[0].status is BatchStatus.RUNNING]
        queued = [pair for pair in running if pair[1].status is SubtaskStatus.QUEUED]
        dropped = [subtask for _, subtask in found if subtask.status is SubtaskStatus.CANCELLED]
        await work.offering.offer_again(self._store, queued)
        if dropped:
            await self._store.cancel(identities_of(dropped))
        told = [*(subtask for _, subtask in queued), *dropped]
        told += [one for _, one in found if one.status not in (SubtaskStatus.QUEUED, SubtaskStatus.CANCELLED)]
        if told:
            rows = [{"b_id": one.id, "b_status": one.status.value} for one in told]
            await work.database.grouped(lambda connection: connection.execute(_TOLD, rows))
        return len(told)

    async def end_overdue(self, work: BatchWork) -> int:
        """End the batches whose deadline is over; what has come stays."""

        def overdue(connection: Connection) -> list[str]:
            return list(connection.execute(_OVERDUE, {"now": work.rows.now(connection)}).scalars())

        ended = 0
        for batch_id in await work.database.read(overdue):
            ended += await work.database.grouped(lambda c, batch_id=batch_id: self._end(c, work, batch_id))
        if ended:
            await self.tell_queue(work)
        return ended

    def _end(self, connection: Connection, work: BatchWork, batch_id: str) -> bool:
        batch = work.rows.locked_batch(connection, batch_id)
        now = work.rows.now(connection)
        if batch is None or not batch.status.is_open or batch.deadline_at > now:
            return False
        ledger = work.ending.ledger(connection)
        work.ending.end(ledger, batch, end_of(batch, EndReason.DEADLINE))
        ledger.write()
        return True

    # --- what is one instance's turn ---

    async def put_right(self, work: BatchWork, report: KeeperReport) -> KeeperReport:
        """What got lost, what never answered, what is old."""
        offered, given_up = await self.reconcile(work)
        failed, sent_again = await self.chase(work)
        removed = await self.remove_old(work)
        return report._replace(
            offered_again=offered, given_up=given_up + failed, sent_again=sent_again, removed=removed
        )

    async def reconcile(self, work: BatchWork) -> tuple[int, int]:
        """Compare old rows with the queue: how many were offered again, and how many given up."""

        def old(connection: Connection) -> list[tuple[Batch, Subtask]]:
            before = {"before": work.rows.now(connection) - self._settings.lost_after_ms}
            queued = _with_batches(connection, work, _OLD_QUEUED, before)
            return queued + _with_batches(connection, work, _OLD_DISPATCHED, before)

        rows = [pair for pair in await work.database.read(old) if pair[0].status is BatchStatus.RUNNING]
        if not rows:
            return 0, 0
        tasks = await self._store.get(identities_of([subtask for _, subtask in rows]))
        paired = list(zip(rows, tasks, strict=True))
        lost = [pair for pair, task in paired if task is None or task.status is TaskStatus.COMPLETED]
        over = [(pair[1], task) for pair, task in paired if task is not None and _has_failed(task)]
        for subtask, task in over:
            why = task.error or f"Its task has ended: {task.reason or task.status}."
            await self._give_up(work, subtask, task.reason or task.status.value, why, is_final=True)
        if lost:
            log.warning("subtasks offered again", reason="the queue had lost them", subtasks=len(lost))
            await work.offering.offer_again(self._store, lost)
        return len(lost), len(over)

    async def chase(self, work: BatchWork) -> tuple[int, int]:
        """Look after the calls that have taken too long: how many have failed, and how many were made once more."""
        settings = self._settings
        patience = settings.call_timeout_ms + settings.grace_ms

        def unanswered(connection: Connection) -> tuple[Instant, Sequence[Any]]:
            now = work.rows.now(connection)
            return now, connection.execute(_UNANSWERED, {"before": now - patience}).all()

        now, rows = await work.database.read(unanswered)
        failed = sent_again = 0
        for row in rows:
            subtask = subtask_of(row)
            if row.begun is None:
                if row.sent_at <= now - settings.send_again_ms:
                    sent_again += await work.database.grouped(lambda c, one=subtask: self._send_again(c, work, one))
            elif row.begun == "dead":
                failed += await self._give_up(work, subtask, "agent_failed", row.said or "The agent has given it up.")
            elif row.begun in ("started", "retrying") and row.begun_at <= now - patience:
                said = f"The agent began and did not answer within {settings.call_timeout_ms / SECOND:g} s."
                failed += await self._give_up(work, subtask, "no_result", said)
        return failed, sent_again

    async def _give_up(
        self, work: BatchWork, subtask: Subtask, error_class: str, error: str, *, is_final: bool = False
    ) -> bool:
        """An attempt has failed, if it still is the one that was looked at."""

        def write(connection: Connection) -> bool:
            ledger = work.ending.ledger(connection)
            ledger.hold([subtask.id])
            pair = ledger.pair(subtask.id)
            if pair is None or not pair[0].status.is_open:
                return False
            batch, held = pair
            if (held.status, held.attempt) != (subtask.status, subtask.attempt):
                return False
            work.collecting.give_back(ledger, batch, held, error_class, error, is_final=is_final)
            ledger.write()
            return True

        return await work.database.grouped(write)

    def _send_again(self, connection: Connection, work: BatchWork, subtask: Subtask) -> bool:
        pairs = work.rows.locked_pairs(connection, [subtask.id])
        if not pairs or pairs[0][0].status is not BatchStatus.RUNNING:
            return False
        batch, held = pairs[0]
        if (held.status, held.attempt) != (subtask.status, subtask.attempt):
            return False
        log.warning("subtask sent again", task_id=held.id, reason="no agent has begun with it")
        back = moved(held, SubtaskStep.PUT_BACK)
        work.dispatching.ask(connection, [(batch, back)], work.rows.now(connection))
        return True

    async def remove_old(self, work: BatchWork) -> int:
        """Remove what has been over for longer than it is kept."""

        def old(connection: Connection) -> list[str]:
            before = work.rows.now(connection) - self._settings.retention_ms
            return list(connection.execute(_ENDED, {"before": before}).scalars())

        ids = await work.database.read(old)
        if ids:
            await work.database.write(lambda connection: remove(connection, ids))
        return len(ids)


def remove(connection: Connection, ids: Sequence[str]) -> None:
    """All that is kept of some batches."""
    for table, column in (
        (batch_events, batch_events.c.batch_id),
        (batch_items, batch_items.c.batch_id),
        (batch_subtasks, _s.batch_id),
        (batches, _b.id),
    ):
        connection.execute(delete(table).where(column.in_(ids)))


def _has_failed(task: Task) -> bool:
    return task.status in (TaskStatus.FAILED, TaskStatus.CANCELLED)


def _with_batches(
    connection: Connection, work: BatchWork, query: Any, given: dict[str, Any]
) -> list[tuple[Batch, Subtask]]:
    subtasks = [subtask_of(row) for row in connection.execute(query, given)]
    if not subtasks:
        return []
    dialect = work.database.backend.dialect
    keys = dialect.keys({subtask.batch_id for subtask in subtasks})
    found = connection.execute(select(batches).where(dialect.among(_b.id)), {"keys": keys})
    by_id = {row.id: batch_of(row) for row in found}
    return [(by_id[one.batch_id], one) for one in subtasks if one.batch_id in by_id]
