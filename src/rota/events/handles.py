"""Handles in the database: a flow waits, events are counted, and it goes on once. `handle.py` has the rules.

    id = handles.create(connection, correlation_id="batch-1", expected=["Genesis.Session.DetailBatchCreated"],
                        expected_count=3, task_name="detail_batch")
    outbox.add(connection, *requests)                  # in the same transaction: no result can come before the handle
    ...
    resumed = await handles.wait("batch-1")

Who counts (`arrive`) holds the handle until its transaction ends, so two that count at once count right; an event is
noted by its id in the same transaction, so one that comes again is not counted again. Handles are taken in the order of
their ids: two transactions that count for several never wait for each other in a circle.

`next_at` is when somebody has to look at a handle that is not pending: when to call, when the lease of whoever calls is
over, or, where nobody is to be called, the deadline.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, Select, Table, and_, bindparam, delete, literal_column, or_, select, update

from rota.clock import HOUR, SECOND, Instant, Millis
from rota.database import Database
from rota.database.tables.events import arrivals, handles
from rota.database.upsert import upsert
from rota.errors import InvalidInput
from rota.events.envelope import Event, uuid7
from rota.events.handle import (
    Callback,
    Handle,
    HandleStatus,
    HandleStep,
    Outcome,
    Resumed,
    UnknownHandle,
    check_callback,
    check_expected,
    check_timeout,
    counts_as,
    decode_callback,
    decode_outcome,
    decode_types,
    status_after,
)
from rota.keys import check_id
from rota.stores.base import Page, page_of
from rota.stores.limits import check_page

__all__ = ["HANDLES_CHANGED", "Called", "Claimed", "Handles"]

HANDLES_CHANGED: Final = "handles"
"""The topic of whoever waits for a handle, or is to call somebody about one."""
TIMEOUT_MS: Final[Millis] = HOUR
LOOK_SECONDS: Final = 5.0
"""Who waits is woken; but if a wake-up was lost nobody waits longer than this."""
MAX_SWEPT: Final = 1_000
"""So many handles are expired or pruned by one transaction."""
MAX_ERROR: Final = 2_000

_c = handles.c
# Written out, not bound: SQLite uses a partial index only where the query says what the index says.
_IS_PENDING: Final = _c.status == literal_column("'pending'")
_IS_OPEN: Final = _c.status.in_([literal_column("'pending'"), literal_column("'ready'"), literal_column("'resuming'")])
_IS_DUE: Final = _c.status.in_([literal_column("'ready'"), literal_column("'resuming'")])
_THE_ONE: Final = _c.id == bindparam("the_id")

_OF_ID: Final = select(handles).where(_THE_ONE)
_OPEN_OF: Final = select(_c.id).where(_IS_OPEN, _c.correlation_id == bindparam("of_correlation"))
_NEWEST_OF: Final = (
    select(_c.id).where(_c.correlation_id == bindparam("of_correlation")).order_by(_c.id.desc()).limit(1)
)
_OVERDUE: Final = (
    select(handles).where(_IS_PENDING, _c.expires_at <= bindparam("now")).order_by(_c.expires_at, _c.id)
).limit(bindparam("most"))
_NOT_TAKEN: Final = (
    select(handles)
    .where(_IS_DUE, _c.status == "ready", _c.callback.is_(None), _c.next_at <= bindparam("now"))
    .order_by(_c.next_at, _c.id)
).limit(bindparam("most"))
_CALLABLE: Final = (
    select(handles).where(_IS_DUE, _c.callback.is_not(None), _c.next_at <= bindparam("now")).order_by(_c.next_at, _c.id)
).limit(bindparam("most"))
_COUNT: Final = update(handles).where(_THE_ONE).values(done=bindparam("now_done"), failed=bindparam("now_failed"))
_FIRST_DEADLINE: Final = select(_c.expires_at).where(_IS_PENDING).order_by(_c.expires_at).limit(1)
_FIRST_DUE: Final = select(_c.next_at).where(_IS_DUE).order_by(_c.next_at).limit(1)
_EVENT_IDS: Final = (
    select(arrivals.c.event_id)
    .where(arrivals.c.handle_id == bindparam("the_id"))
    .order_by(arrivals.c.at, arrivals.c.event_id)
)


class Claimed(NamedTuple):
    """A handle whose flow is to be called now, by whoever has the token."""

    id: str
    token: str
    callback: Callback
    outcome: Outcome
    flow_run_id: str | None
    attempts: int
    """Calls so far, this one too."""
    now: Instant


class Called(NamedTuple):
    """What came of a call."""

    step: HandleStep
    """ACCEPT, PUT_OFF or REFUSE."""
    error: str | None = None


class Handles:
    """Those of one database."""

    def __init__(
        self,
        database: Database,
        *,
        chance: Callable[[int], bytes] = os.urandom,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self.database = database
        self._dialect = database.backend.dialect
        self._chance = chance
        self._look_seconds = look_seconds
        # Asked for every event with a correlation id: made once, for making a statement takes longer than answering it.
        waiting = select(handles).where(_IS_OPEN, _IS_PENDING, self._dialect.among(_c.correlation_id)).order_by(_c.id)
        self._waiting = self._dialect.locked(waiting)
        self._known = _EVENT_IDS.where(self._dialect.among(arrivals.c.event_id))

    # --- a flow is going to wait ---

    def create(
        self,
        connection: Connection,
        *,
        correlation_id: str,
        expected: Sequence[str],
        expected_count: int,
        task_name: str,
        failed_types: Sequence[str] = (),
        flow_run_id: str | None = None,
        callback: Callback | Mapping[str, object] | None = None,
        timeout_ms: Millis = TIMEOUT_MS,
        user_id: str | None = None,
    ) -> str:
        """Have the events of a correlation id counted from now on; the id of the handle.

        It belongs into the transaction of the first event that leads to them, or an earlier one. `callback` says whom
        to call at the end; without one a flow of our own waits (`wait`), or nobody does.
        """
        _check_texts(correlation_id=correlation_id, task_name=task_name, flow_run_id=flow_run_id, user_id=user_id)
        types = check_expected(expected, failed_types, expected_count)
        checked = check_callback(callback, flow_run_id)
        now = self._dialect.now(connection)
        row = {
            "id": uuid7(now, self._chance(10)),
            "correlation_id": correlation_id,
            "flow_run_id": flow_run_id,
            "task_name": task_name,
            "expected": _json(types),
            "expected_count": expected_count,
            "status": str(HandleStatus.PENDING),
            "callback": None if checked is None else _json(checked),
            "user_id": user_id,
            "expires_at": now + check_timeout(timeout_ms),
            "created_at": now,
        }
        # If another transaction makes one of the same correlation id at this moment, theirs or ours is the first.
        if not _insert_new(connection, handles, [row]):
            self._refuse_second(connection, correlation_id)
        return str(row["id"])

    def _refuse_second(self, connection: Connection, correlation_id: str) -> None:
        known = connection.execute(_OPEN_OF, {"of_correlation": correlation_id}).scalar()
        raise InvalidInput(
            f"The handle {known} of the correlation id {correlation_id!r} is still open."
            " Use a correlation id for each flow that waits, or wait until that one has ended."
        )

    # --- events arrive ---

    def arrive(self, connection: Connection, event: Event, now: Instant | None = None) -> bool:
        """Count an event for the handle that waits for it. False if none does, or if it was counted before.

        Who knows the database's time (`now`) spares asking for it, while others wait to count for the same handle.
        """
        return self.arrive_all(connection, [event], now) == 1

    def arrive_all(self, connection: Connection, events: Iterable[Event], now: Instant | None = None) -> int:
        """The same for several; how many were counted."""
        by_correlation: defaultdict[str, list[Event]] = defaultdict(list)
        for event in events:
            if event.correlation_id is not None:
                by_correlation[event.correlation_id].append(event)
        if not by_correlation:
            return 0
        rows = connection.execute(self._waiting, {"keys": self._dialect.keys(by_correlation)}).all()
        if not rows:
            return 0
        at = self._dialect.now(connection) if now is None else now
        return sum(self._count(connection, row, by_correlation[row.correlation_id], at) for row in rows)

    def _count(self, connection: Connection, row: Row[Any], events: Sequence[Event], now: Instant) -> int:
        expected = set(decode_types(row.expected))
        room = row.expected_count - row.done - row.failed
        came = {_id_of(event): event.event_type for event in events if event.event_type in expected}
        counts = Counter(map(counts_as, self._note(connection, row.id, came, room, now)))
        if counts:
            done, failed = row.done + counts["done"], row.failed + counts["failed"]
            connection.execute(_COUNT, {"the_id": row.id, "now_done": done, "now_failed": failed})
            if counts.total() == room:
                self._make_ready(connection, row, HandleStep.COMPLETE, _outcome(row, done, failed), now)
        return counts.total()

    def _note(
        self, connection: Connection, handle_id: str, came: Mapping[str, str], room: int, now: Instant
    ) -> list[str]:
        """Note the events that come for the first time, as many as there is room for; their types."""
        if len(came) > room:
            given = {"the_id": handle_id, "keys": self._dialect.keys(came)}
            known = set(connection.execute(self._known, given).scalars())
            came = dict(itertools.islice(((id_, came[id_]) for id_ in came if id_ not in known), room))
        rows = [{"handle_id": handle_id, "event_id": id_, "event_type": came[id_], "at": now} for id_ in came]
        return [came[row.event_id] for row in _insert_new(connection, arrivals, rows)] if rows else []

    # --- nobody waits any longer ---

    def expire(self, connection: Connection, limit: int = MAX_SWEPT) -> int:
        """End the wait of those whose deadline is over; how many those were. Any number of instances may do so."""
        now = self._dialect.now(connection)
        given = {"now": now, "most": limit}
        rows = [
            row
            for query in (_OVERDUE, _NOT_TAKEN)
            for row in connection.execute(self._dialect.locked(query, pass_over=True), given)
        ]
        for row in rows:
            self._expire_one(connection, row, now)
        return len(rows)

    def _expire_one(self, connection: Connection, row: Row[Any], now: Instant) -> None:
        """The row is ours, and its deadline over."""
        outcome = _outcome(row, row.done, row.failed, expired=True)
        if row.callback is not None:
            self._make_ready(connection, row, HandleStep.TIME_OUT, outcome, now)
            return
        payload = row.payload or _json(outcome)
        _move(connection, row, HandleStep.LAPSE, payload=payload)
        self.database.changes.poke(connection, HANDLES_CHANGED)

    def resume_by_hand(self, connection: Connection, handle_id: str) -> Handle:
        """For operators: do not wait for what is missing, or try again what has failed, or do not put it off.

        `IllegalTransition` if there is nothing to resume any more.
        """
        row = self._held(connection, handle_id)
        now = self._dialect.now(connection)
        if row.status == HandleStatus.RESUMING:
            return _handle(row)  # somebody is calling at this moment
        if row.status == HandleStatus.FAILED:
            self._check_no_other(connection, row)
        outcome = _outcome(row, row.done, row.failed) if row.payload is None else decode_outcome(row.payload)
        self._make_ready(connection, row, HandleStep.FORCE, outcome, now)
        return _handle(self._held(connection, handle_id))

    def _check_no_other(self, connection: Connection, row: Row[Any]) -> None:
        if connection.execute(_OPEN_OF, {"of_correlation": row.correlation_id}).first() is not None:
            self._refuse_second(connection, row.correlation_id)

    def _make_ready(
        self, connection: Connection, row: Row[Any], step: HandleStep, outcome: Outcome, now: Instant
    ) -> None:
        next_at = row.expires_at if row.callback is None else now
        _move(connection, row, step, payload=_json(outcome), next_at=next_at, attempts=0)
        self.database.changes.poke(connection, HANDLES_CHANGED)

    # --- a flow of our own ---

    async def wait(self, correlation_id: str, timeout: float | None = None) -> Resumed:  # noqa: ASYNC109 - it says how far it got
        """Until all has arrived or the deadline is over; what has come. Whoever asks again is told the same.

        `TimeoutError` after so many seconds: the handle waits on, and may be waited for again.
        """
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        with await self.database.changes.subscribe(HANDLES_CHANGED) as heard:
            handle_id = await self.database.read(partial(self._newest, correlation_id=correlation_id))
            while True:
                row, left_ms = await self.database.read(partial(self._look, handle_id=handle_id))
                if left_ms <= 0:
                    return await self.database.grouped(partial(self._collect, handle_id=handle_id))
                patience = min(self._look_seconds, left_ms / SECOND)
                if until is not None:
                    patience = min(patience, until - loop.time())
                    if patience <= 0:
                        raise TimeoutError(_not_yet(row))
                await heard.wait(patience)

    def _newest(self, connection: Connection, correlation_id: str) -> str:
        given = {"of_correlation": correlation_id}
        found = connection.execute(_OPEN_OF, given).scalar() or connection.execute(_NEWEST_OF, given).scalar()
        if found is None:
            raise UnknownHandle(
                f"No handle has the correlation id {correlation_id!r}. Create it before the first event."
            )
        return str(found)

    def _look(self, connection: Connection, handle_id: str) -> tuple[Row[Any], Millis]:
        """The handle, and how long it may still wait; not at all if its outcome is known."""
        row = _one(connection, _OF_ID, handle_id)
        is_pending = row.status == HandleStatus.PENDING
        return row, row.expires_at - self._dialect.now(connection) if is_pending else 0

    def _collect(self, connection: Connection, handle_id: str) -> Resumed:
        now = self._dialect.now(connection)
        row = self._held(connection, handle_id)
        if row.status == HandleStatus.PENDING:
            self._expire_one(connection, row, now)
            row = self._held(connection, handle_id)
        if row.callback is None and row.status in (HandleStatus.READY, HandleStatus.EXPIRED):
            _move(connection, row, HandleStep.COLLECT, resumed_at=now)
        event_ids = list(connection.execute(_EVENT_IDS, {"the_id": handle_id}).scalars())
        outcome = decode_outcome(row.payload)
        return Resumed(**msgspec.structs.asdict(outcome), event_ids=event_ids)

    # --- somebody is to be called ---

    def claim(self, connection: Connection, *, limit: int, lease_ms: Millis, token: str) -> list[Claimed]:
        """Take on those whose flow is to be called now. Whoever does not say in time what came of it loses them."""
        now = self._dialect.now(connection)
        until = now + lease_ms
        found = connection.execute(self._dialect.locked(_CALLABLE, pass_over=True), {"now": now, "most": limit}).all()
        for row in found:
            leased = {"lease_token": token, "lease_until": until, "next_at": until, "attempts": row.attempts + 1}
            _move(connection, row, HandleStep.CLAIM, **leased)
        return [
            Claimed(
                id=row.id,
                token=token,
                callback=decode_callback(row.callback),
                outcome=decode_outcome(row.payload),
                flow_run_id=row.flow_run_id,
                attempts=row.attempts + 1,
                now=now,
            )
            for row in found
        ]

    def record(self, connection: Connection, claimed: Claimed, called: Called, put_off_ms: Millis) -> bool:
        """Write down what came of a call. False if somebody else has the handle by now: then nothing is written."""
        row = connection.execute(self._dialect.locked(_OF_ID), {"the_id": claimed.id}).first()
        if row is None or row.status != HandleStatus.RESUMING or row.lease_token != claimed.token:
            return False
        now = self._dialect.now(connection)
        changes: dict[str, Any] = {"error": None if called.error is None else called.error[:MAX_ERROR]}
        if called.step is HandleStep.ACCEPT:
            changes["resumed_at"] = now
        changes["next_at"] = now + put_off_ms if called.step is HandleStep.PUT_OFF else 0
        _move(connection, row, called.step, lease_token=None, lease_until=0, **changes)
        if called.step is not HandleStep.PUT_OFF:
            self.database.changes.poke(connection, HANDLES_CHANGED)
        return True

    def next_at(self, connection: Connection) -> Instant | None:
        """When the next handle has something to be done about; None if none has."""
        found = [connection.execute(query).scalar() for query in (_FIRST_DEADLINE, _FIRST_DUE)]
        return min((at for at in found if at is not None), default=None)

    # --- reading ---

    async def find(
        self,
        *,
        status: HandleStatus | None = None,
        correlation_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Handle]:
        """A page of handles, the newest first."""
        check_page(limit)
        # Ids begin with the time, so they are in the order of creation.
        query = select(handles).order_by(_c.id.desc()).limit(limit + 1)
        if status is not None:
            query = query.where(_c.status == str(status))
        if correlation_id is not None:
            query = query.where(_c.correlation_id == correlation_id)
        if cursor is not None:
            query = query.where(_c.id < check_id(cursor, "cursor"))
        found = await self.database.read(lambda connection: [_handle(row) for row in connection.execute(query)])
        return page_of(found, limit, lambda handle: handle.id)

    async def get(self, handle_id: str) -> Handle:
        """`UnknownHandle` if there is none."""
        return await self.database.read(lambda connection: _handle(_one(connection, _OF_ID, handle_id)))

    async def event_ids(self, handle_id: str) -> list[str]:
        """The events that were counted, in the order of their arrival."""
        return await self.database.read(
            lambda connection: list(connection.execute(_EVENT_IDS, {"the_id": handle_id}).scalars())
        )

    # --- forgetting ---

    def erase_user(self, connection: Connection, user_id: str) -> int:
        """Remove a user's handles, also those that wait; how many those were."""
        return _remove(connection, select(_c.id).where(_c.user_id == user_id))

    def export_user(self, connection: Connection, user_id: str) -> list[dict[str, Any]]:
        """A user's handles, with the events that were counted."""
        rows = connection.execute(select(handles).where(_c.user_id == user_id).order_by(_c.id)).all()
        return [
            {
                **msgspec.to_builtins(_handle(row)),
                "event_ids": list(connection.execute(_EVENT_IDS, {"the_id": row.id}).scalars()),
            }
            for row in rows
        ]

    async def prune(self, keep_ms: Millis, limit: int = MAX_SWEPT) -> int:
        """Forget handles that ended so long ago, with what was counted for them; how many those were."""

        def forget(connection: Connection) -> int:
            before = self._dialect.now(connection) - keep_ms
            ended_at = _c.resumed_at, _c.expires_at
            is_old = or_(ended_at[0] < before, and_(ended_at[0].is_(None), ended_at[1] < before))
            # What was made later cannot have ended earlier: that spares looking at all of them.
            old = select(_c.id).where(_c.created_at < before, ~_IS_OPEN, is_old).order_by(_c.created_at).limit(limit)
            return _remove(connection, self._dialect.locked(old, pass_over=True))

        return await self.database.write(forget)

    def _held(self, connection: Connection, handle_id: str) -> Row[Any]:
        return _one(connection, self._dialect.locked(_OF_ID), handle_id)


def _check_texts(**texts: str | None) -> None:
    for name, value in texts.items():
        if value is not None and not check_id(value, name):
            raise InvalidInput(f"{name} is empty. Give it at least one character.")


@cache
def _insert(database: str, table: Table) -> Any:
    return upsert(database, table).on_conflict_do_nothing().returning(*table.primary_key)


def _insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> Sequence[Row[Any]]:
    """The keys of the rows that were not there yet."""
    return connection.execute(_insert(connection.dialect.name, table), rows).all()


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _id_of(event: Event) -> str:
    if event.event_id is None:
        raise InvalidInput(f"An event {event.event_type} without an event_id cannot be counted: it might come again.")
    return event.event_id


def _outcome(row: Row[Any], done: int, failed: int, *, expired: bool = False) -> Outcome:
    return Outcome(
        handle_id=row.id,
        correlation_id=row.correlation_id,
        expected=row.expected_count,
        done=done,
        failed=failed,
        expired=expired,
    )


def _move(connection: Connection, row: Row[Any], step: HandleStep, **changes: Any) -> None:
    """Make a step from where the row stands, which is ours: nobody else can have moved it meanwhile."""
    after = status_after(HandleStatus(row.status), step, row.id)
    same = and_(_THE_ONE, _c.status == row.status)
    moved = connection.execute(update(handles).where(same).values(status=str(after), **changes), {"the_id": row.id})
    assert moved.rowcount == 1, f"the handle {row.id} was moved by somebody who did not hold it"


def _one(connection: Connection, query: Select[Any], handle_id: str) -> Row[Any]:
    row = connection.execute(query, {"the_id": handle_id}).first()
    if row is None:
        raise UnknownHandle(
            f"No handle has the id {handle_id!r}. It may have been pruned; `rota handle ls` lists them."
        )
    return row


def _handle(row: Row[Any]) -> Handle:
    callback = None if row.callback is None else decode_callback(row.callback)
    return Handle(
        id=row.id,
        correlation_id=row.correlation_id,
        flow_run_id=row.flow_run_id,
        task_name=row.task_name,
        expected=decode_types(row.expected),
        expected_count=row.expected_count,
        done=row.done,
        failed=row.failed,
        status=HandleStatus(row.status),
        callback=None if callback is None else str(callback.__struct_config__.tag),
        user_id=row.user_id,
        error=row.error,
        attempts=row.attempts,
        next_at=row.next_at,
        expires_at=row.expires_at,
        resumed_at=row.resumed_at,
        created_at=row.created_at,
    )


def _not_yet(row: Row[Any]) -> str:
    return (
        f"Of the {row.expected_count:,} events of {row.correlation_id!r} {row.done:,} have arrived and {row.failed:,}"
        " have failed so far; the handle waits on."
    )


def _remove(connection: Connection, which: Select[Any]) -> int:
    ids = list(connection.execute(which).scalars())
    for handle_id in ids:
        connection.execute(delete(arrivals).where(arrivals.c.handle_id == handle_id))
        connection.execute(delete(handles).where(_THE_ONE), {"the_id": handle_id})
    return len(ids)
