"""The inbox: one row for each event that a consumer has seen. It makes effects happen once, however often a bus brings
an event, and keeps those that have failed, in the order of their keys.

Everything here runs in a transaction of the caller's. Whoever writes how something ended gives the token that it was
started with; a row that somebody else has taken meanwhile is left alone, and what was done for it is rolled back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Executable, and_, bindparam, case, func, literal_column, or_, select, update

from rota.clock import Instant, Millis
from rota.core.lifecycle import MAX_CRASHES, SUSPECT_CRASHES
from rota.database import Database
from rota.database.backend import Dialect
from rota.database.many import insert_new_many
from rota.database.tables.events import inbox
from rota.errors import LeaseLost
from rota.events.delivery import Begin, Failure, InboxRow, InboxStatus, how_to_begin

__all__ = ["INBOX_CHANGED", "Arrived", "Inbox", "Known", "Retry"]

INBOX_CHANGED: Final = "inbox"
"""The topic of whoever tries again what waits."""

_c = inbox.c
_IS_OPEN: Final = _c.status.in_([literal_column("'started'"), literal_column("'retrying'")])
_IS_RETRYING: Final = _c.status == literal_column("'retrying'")


class Arrived(NamedTuple):
    """An event that a bus has brought, as the inbox notes it."""

    event_id: str
    topic: str
    key: str
    user_id: str | None
    envelope: str


class Known(NamedTuple):
    """What is to be done with it, and how often it was tried before."""

    begin: Begin
    attempts: int = 0
    crashes: int = 0
    ask_again_at: Instant = 0


class Retry(NamedTuple):
    """An event that is tried from the inbox."""

    event_id: str
    topic: str
    key: str
    envelope: str
    attempts: int
    crashes: int


class Inbox:
    """One consumer's, as one instance sees it. `token` is the instance's own, for as long as it lives."""

    def __init__(self, database: Database, consumer: str, token: str, *, lease_ms: Millis) -> None:
        self.consumer = consumer
        self.token = token
        self.lease_ms = lease_ms
        self._dialect = database.backend.dialect
        self._statements = _statements_for(self._dialect)

    def now(self, connection: Connection) -> Instant:
        return self._dialect.now(connection)

    # --- what a bus has brought ---

    def begin(self, connection: Connection, arrived: Sequence[Arrived], *, alone: bool = False) -> list[Known]:
        """Note as started what is to be run now, and as waiting what has to wait; what to do with each."""
        now = self.now(connection)
        rows = self._rows(connection, [one.event_id for one in arrived])
        ahead = self._first_open_of(connection, arrived)
        answers: list[Known] = []
        behind: set[tuple[str, str]] = set()
        new: list[dict[str, Any]] = []
        again: list[dict[str, Any]] = []
        for one in arrived:
            place = one.topic, one.key
            row = rows.get(one.event_id)
            first = _before(one.event_id, ahead.get(place))
            begin = how_to_begin(_seen(row), first, self.token, now, alone=alone)
            if begin is Begin.RUN and place in behind and row is None:
                begin = Begin.BEHIND
            if begin is Begin.BEHIND:
                behind.add(place)
                if row is None:
                    new.append(self._row(one, InboxStatus.RETRYING, now))
                else:
                    self._move_behind(connection, one, now)
            elif begin is Begin.RUN and row is None:
                new.append(self._row(one, InboxStatus.STARTED, now))
            elif begin is Begin.RUN:
                again.append({"b_event": one.event_id})
            crashes = 0 if row is None else row.crashes
            until = max(now, first.lease_until if row is None and first else 0 if row is None else row.lease_until)
            answers.append(Known(begin, 0 if row is None else row.attempts, crashes, until))
        inserted = self._insert(connection, new)
        self._start_again(connection, again, now)
        # Somebody else was faster with the same event: ask again.
        return [
            known._replace(begin=Begin.HELD, ask_again_at=now)
            if known.begin in (Begin.RUN, Begin.BEHIND) and one.event_id not in rows and one.event_id not in inserted
            else known
            for one, known in zip(arrived, answers, strict=True)
        ]

    def _rows(self, connection: Connection, event_ids: Collection[str]) -> dict[str, Any]:
        found = connection.execute(self._statements.rows, self._named(event_ids))
        return {row.event_id: row for row in found}

    def _first_open_of(self, connection: Connection, arrived: Sequence[Arrived]) -> Mapping[tuple[str, str], Any]:
        """The first open one of each key, whatever has arrived of it."""
        given = self._named({one.key for one in arrived}) | {"topics": sorted({one.topic for one in arrived})}
        found = connection.execute(self._statements.first_open, given)
        return {(row.topic, row.key): row for row in found}

    def _named(self, names: Collection[str]) -> dict[str, object]:
        """What statements about a number of events, or keys, are given."""
        return {"b_consumer": self.consumer, "b_token": self.token, "keys": self._dialect.keys(names)}

    def _row(self, one: Arrived, status: InboxStatus, now: Instant) -> dict[str, Any]:
        is_started = status is InboxStatus.STARTED
        return {
            "consumer": self.consumer,
            "event_id": one.event_id,
            "topic": one.topic,
            "key": one.key,
            "status": str(status),
            "crashes": int(is_started),
            "lease_until": now + self.lease_ms if is_started else 0,
            "lease_token": self.token if is_started else None,
            "envelope": None if is_started else one.envelope,
            "user_id": one.user_id,
            "at": now,
        }

    @staticmethod
    def _insert(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> set[str]:
        return insert_new_many(connection, inbox, rows, _c.event_id)

    def _start_again(self, connection: Connection, again: Sequence[Mapping[str, Any]], now: Instant) -> None:
        if not again:
            return
        connection.execute(
            update(inbox)
            .where(_c.consumer == self.consumer, _c.event_id == bindparam("b_event"))
            .values(crashes=_c.crashes + 1, lease_until=now + self.lease_ms, lease_token=self.token, at=now),
            list(again),
        )

    # --- what is tried from here ---

    def claim_retries(self, connection: Connection, limit: int, *, alone: bool) -> list[Retry]:
        """Take those that are due, of each key the first one only. What has ended its process before is taken only if
        it can run alone, and then nothing else is."""
        now = self.now(connection)
        first = self._first()
        is_suspect = first.c.crashes >= SUSPECT_CRASHES
        due = (
            select(first.c.seq)
            .where(
                first.c.number == 1,
                first.c.status == str(InboxStatus.RETRYING),
                first.c.next_at <= now,
                first.c.lease_until <= now,
                is_suspect if alone else ~is_suspect,
            )
            .order_by(first.c.next_at, first.c.seq)
            .limit(1 if alone else limit)
        )
        seqs = list(connection.execute(due).scalars())
        if not seqs:
            return []
        # Looked at again while they are locked: somebody else may have been faster.
        query = (
            select(_c.event_id, _c.topic, _c.key, _c.envelope, _c.attempts, _c.crashes)
            .where(_c.seq.in_(seqs), _IS_RETRYING, _c.lease_until <= now)
            .order_by(_c.seq)
        )
        rows = connection.execute(_locked(self._dialect, query, pass_over=True)).all()
        runnable = [row for row in rows if row.crashes < MAX_CRASHES]
        self._start_again(connection, [{"b_event": row.event_id} for row in runnable], now)
        return [Retry(*row) for row in rows]

    def has_suspects(self, connection: Connection) -> bool:
        """Whether one is due that has ended its process before."""
        now = self.now(connection)
        query = select(_c.seq).where(
            _c.consumer == self.consumer,
            _IS_RETRYING,
            _c.crashes >= SUSPECT_CRASHES,
            _c.next_at <= now,
            _c.lease_until <= now,
        )
        return connection.execute(query.limit(1)).first() is not None

    def next_retry_at(self, connection: Connection) -> Instant | None:
        """When the next one is due; None if none waits."""
        first = self._first()
        at = case((first.c.next_at > first.c.lease_until, first.c.next_at), else_=first.c.lease_until)
        query = select(func.min(at)).where(first.c.number == 1, first.c.status == str(InboxStatus.RETRYING))
        return connection.execute(query).scalar()

    def _first(self) -> Any:
        """The open ones, and which of their key each is; 1 is the first."""
        number = func.row_number().over(partition_by=(_c.topic, _c.key), order_by=_c.seq).label("number")
        columns = (_c.seq, _c.status, _c.crashes, _c.next_at, _c.lease_until, number)
        return select(*columns).where(_c.consumer == self.consumer, _IS_OPEN).subquery("first")

    # --- how it ended ---

    def hold(self, connection: Connection, event_ids: Collection[str]) -> set[str]:
        """Those that are still ours; nobody takes one of them until this transaction ends."""
        return set(connection.execute(self._statements.hold, self._named(event_ids)).scalars())

    def finish(self, connection: Connection, event_ids: Collection[str]) -> set[str]:
        """Their effects are in this transaction; those that are still ours, which it holds from now on."""
        given = self._named(event_ids) | {"b_now": self.now(connection)}
        return set(connection.execute(self._statements.finish, given).scalars())

    def fail(self, connection: Connection, event_id: str, failure: Failure, envelope: str) -> None:
        """It waits to be tried again, or is dead."""
        self._end(
            connection,
            event_id,
            {
                "status": str(failure.status),
                "attempts": failure.attempts,
                "next_at": failure.next_at,
                "error_class": failure.error_class,
                "error": failure.error,
                "envelope": envelope,
            },
        )

    def bury(self, connection: Connection, event_id: str, failure: Failure, envelope: str) -> bool:
        """It has ended its process too often: nobody has it, and nobody will. Whether it was this call that said so."""
        now = self.now(connection)
        nobody_has_it = and_(_c.consumer == self.consumer, _c.event_id == event_id, _IS_OPEN, _c.lease_until <= now)
        buried = connection.execute(
            update(inbox)
            .where(nobody_has_it)
            .values(
                status=str(InboxStatus.DEAD),
                lease_token=None,
                error_class=failure.error_class,
                error=failure.error,
                envelope=envelope,
                at=now,
            )
        )
        return buried.rowcount == 1

    def put_behind(self, connection: Connection, one: Arrived) -> bool:
        """It waits behind one of its key that has failed; what was noted of it until now does not matter. False if
        another instance has it, and may still be alive."""
        now = self.now(connection)
        if self._insert(connection, [self._row(one, InboxStatus.RETRYING, now)]):
            return True
        if self._move_behind(connection, one, now):
            return True
        row = self._rows(connection, [one.event_id]).get(one.event_id)
        return row is not None and row.status != InboxStatus.STARTED

    def _move_behind(self, connection: Connection, one: Arrived, now: Instant) -> bool:
        """What was started here, or by somebody whose lease is over, waits from now on. Of the latter nobody knows how
        it ended: that still counts as a crash."""
        is_mine = _c.lease_token == self.token
        moved = connection.execute(
            update(inbox)
            .where(
                _c.consumer == self.consumer,
                _c.event_id == one.event_id,
                _c.status == str(InboxStatus.STARTED),
                or_(is_mine, _c.lease_until <= now),
            )
            .values(
                status=str(InboxStatus.RETRYING),
                crashes=case((is_mine, _c.crashes - 1), else_=_c.crashes),
                lease_until=0,
                lease_token=None,
                envelope=one.envelope,
            )
        )
        return moved.rowcount == 1

    def give_back(self, connection: Connection, event_ids: Sequence[str]) -> None:
        """As if it had never been started: the bus brings it again, or another instance takes it."""
        if not event_ids:
            return
        connection.execute(
            update(inbox)
            .where(
                _c.consumer == self.consumer,
                _c.event_id == bindparam("b_event"),
                _c.lease_token == self.token,
                _IS_OPEN,
            )
            .values(crashes=_c.crashes - 1, lease_until=0, lease_token=None),
            [{"b_event": event_id} for event_id in event_ids],
        )

    def renew(self, connection: Connection, event_ids: Collection[str]) -> None:
        """Keep what runs here, and what waits here to be run."""
        until = self.now(connection) + self.lease_ms
        connection.execute(self._statements.renew, self._named(event_ids) | {"b_until": until})

    def _end(self, connection: Connection, event_id: str, values: Mapping[str, Any]) -> None:
        ended = connection.execute(
            update(inbox)
            .where(
                _c.consumer == self.consumer,
                _c.event_id == event_id,
                _c.lease_token == self.token,
                _IS_OPEN,
            )
            .values(crashes=_c.crashes - 1, lease_until=0, lease_token=None, at=self.now(connection), **values)
        )
        if ended.rowcount != 1:
            raise LeaseLost(f"The event {event_id} is another instance's by now; what was done for it is undone.")


class _Statements(NamedTuple):
    """What is executed for every group of events. Made once: to make them costs more than to execute them."""

    rows: Executable
    first_open: Executable
    hold: Executable
    finish: Executable
    renew: Executable


def _statements_for(dialect: Dialect) -> _Statements:
    of_consumer = _c.consumer == bindparam("b_consumer")
    named = and_(of_consumer, dialect.among(_c.event_id))
    mine = and_(named, _c.lease_token == bindparam("b_token"), _IS_OPEN)
    seen = _c.event_id, _c.status, _c.crashes, _c.lease_until, _c.lease_token
    # With the topics, which the index has before the keys: else every open row of the consumer is looked at.
    of_keys = and_(of_consumer, _c.topic.in_(bindparam("topics", expanding=True)), dialect.among(_c.key), _IS_OPEN)
    first = select(func.min(_c.seq)).where(of_keys).group_by(_c.topic, _c.key)
    ended = {"crashes": _c.crashes - 1, "lease_until": 0, "lease_token": None, "envelope": None, "error": None}
    return _Statements(
        rows=_locked(dialect, select(*seen, _c.attempts).where(named)),
        first_open=select(*seen, _c.topic, _c.key).where(_c.seq.in_(first)),
        hold=_locked(dialect, select(_c.event_id).where(mine)),
        finish=update(inbox)
        .where(mine)
        .values(status=str(InboxStatus.DONE), at=bindparam("b_now"), **ended)
        .returning(_c.event_id),
        renew=update(inbox).where(mine).values(lease_until=bindparam("b_until")),
    )


def _seen(row: Any) -> InboxRow | None:
    return None if row is None else InboxRow(InboxStatus(row.status), row.crashes, row.lease_until, row.lease_token)


def _before(event_id: str, first: Any) -> InboxRow | None:
    """The first open one of its key, unless that is the event itself: what came after it does not hold it up."""
    return None if first is None or first.event_id == event_id else _seen(first)


def _locked(dialect: Dialect, query: Any, *, pass_over: bool = False) -> Any:
    return dialect.locked(query, pass_over=pass_over)
