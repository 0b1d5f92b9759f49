"""The relay: what was committed to the outbox goes to the bus, in the order of each key, and none is lost.

Any number of instances relay at once. A round claims new events, of each key the oldest one only: so none is sent
before its predecessor, whatever fails. It sends them as one group, and notes what was sent; in the same transaction it
claims those of the next round. An instance that dies in between leaves its claims to the next one after their lease;
what it had sent already is then sent again.

A bus that is away costs nothing: events wait without counting, for ever. Only what the bus refuses for itself, because
it is too large or its topic can be none, is dead, with the reason.

A claim goes by status, never by a number that was seen last: numbers are given out before they are committed.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Executable, Select, and_, bindparam, func, literal_column, select, update

from rota.clock import SECOND, Instant, Millis
from rota.database import Database
from rota.database.backend import Dialect
from rota.database.changes import Subscription
from rota.database.tables.events import outbox
from rota.errors import BusAway, StoreError
from rota.events.buses.base import Bus, Outgoing, Refused
from rota.events.buses.local import LocalBus
from rota.events.events import Events
from rota.events.outbox import OUTBOX_CHANGED, headers_of, value_of_row
from rota.runtime.duty import Duty, DutyContext

__all__ = ["GROUP", "Relay", "RelayReport"]

GROUP: Final = 500
"""So many events are claimed, sent and noted at once."""
EARLY: Final = 4
"""The first so many groups are looked through; all, if what can be sent of them is less than such a part of a group."""
LEASE_MS: Final[Millis] = 10 * SECOND
LOOK_SECONDS: Final = 10.0
"""Nobody has to poll; but if a wake-up was lost nobody waits longer than this."""
WAIT_MS: Final[Millis] = SECOND
"""What the bus could not take now, while it took others, waits so long."""

_IS_NEW: Final = outbox.c.status == literal_column("'new'")


_new = select(outbox.c.seq, outbox.c.topic, outbox.c.key, outbox.c.next_at, outbox.c.lease_until).where(_IS_NEW)


def _claim_statement(dialect: Dialect, among: Select[*tuple[Any, ...]]) -> Executable:
    """Take the oldest of each key that nobody has, among some that have none of their keys before them. What another
    relay is taking at the same moment is passed over; how it stands is looked at again while it is locked."""
    new = among.subquery("new")
    number = func.row_number().over(partition_by=(new.c.topic, new.c.key), order_by=new.c.seq).label("number")
    first = select(new, number).subquery("first")
    due = first.c.number == 1, first.c.next_at <= bindparam("now"), first.c.lease_until <= bindparam("now")
    claimable = select(first.c.seq).where(*due).order_by(first.c.seq).limit(bindparam("limit"))
    # Found before anything is locked: no order of locks follows from the search.
    found = claimable.cte("claimable")
    free = and_(outbox.c.seq.in_(select(found.c.seq)), _IS_NEW, outbox.c.lease_until <= bindparam("now"))
    held = dialect.locked(select(outbox.c.seq).where(free), pass_over=True)
    taking = update(outbox).where(outbox.c.seq.in_(held)).returning(outbox)
    return taking.values(lease_until=bindparam("until"), lease_token=bindparam("token"))


@cache
def _claim_any(dialect: Dialect) -> Executable:
    return _claim_statement(dialect, _new)


@cache
def _claim_early(dialect: Dialect) -> Executable:
    """The same among those that came first: after an outage there may be so many that looking at all of them would take
    most of a round."""
    return _claim_statement(dialect, _new.order_by(outbox.c.seq).limit(bindparam("early")))


_BEYOND: Final = select(outbox.c.seq).where(_IS_NEW).order_by(outbox.c.seq).offset(bindparam("early")).limit(1)
"""Whether there are more than those that came first."""
_mine = and_(outbox.c.seq == bindparam("b_seq"), outbox.c.lease_token == bindparam("b_token"), _IS_NEW)
_SENT: Final = (
    update(outbox)
    .where(outbox.c.seq.in_(bindparam("seqs", expanding=True)), outbox.c.lease_token == bindparam("token"), _IS_NEW)
    .values(status="sent", sent_at=bindparam("now"), lease_until=0, lease_token=None, error=None)
)
_DEAD: Final = (
    update(outbox)
    .where(_mine)
    .values(
        status="dead",
        attempts=outbox.c.attempts + 1,
        sent_at=bindparam("b_now"),
        lease_until=0,
        lease_token=None,
        error=bindparam("b_error"),
    )
)
_WAITS: Final = (
    update(outbox)
    .where(_mine)
    .values(lease_until=0, lease_token=None, next_at=bindparam("b_next"), error=bindparam("b_error"))
)


class _Claim(NamedTuple):
    """Events that nobody else sends for a while: those who note how they went say the token."""

    token: str
    rows: Sequence[Any]
    at: float
    """By the monotonic clock, before it was asked for."""


class RelayReport(NamedTuple):
    """What one round has moved."""

    sent: int = 0
    dead: int = 0
    waiting: int = 0


class Relay(Duty[RelayReport]):
    """One instance's relay."""

    name = "relay"

    def __init__(
        self,
        open_events: Callable[[], Awaitable[Events | None]],
        context: DutyContext,
        *,
        group: int = GROUP,
        lease_ms: Millis = LEASE_MS,
    ) -> None:
        super().__init__(context.pulse, context.chance)
        self._open = open_events
        self._clock = context.clock
        self._group = group
        self._lease_ms = lease_ms
        self._heard: Subscription | None = None
        self._next: _Claim | None = None
        """What the last round has claimed for this one."""

    async def run_once(self, now: Instant | None = None) -> RelayReport:
        events = await self._open()
        if events is None:
            return RelayReport()
        if self._heard is None:
            self._heard = await events.database.changes.subscribe(OUTBOX_CHANGED, on_wake=self.wake)
        if isinstance(events.bus, LocalBus):
            return RelayReport(sent=await self._place(events, events.bus))
        return await self._carry(events, events.bus)

    def pause_after(self, report: RelayReport) -> float:
        if self._next is not None:
            return 0.0
        return WAIT_MS / SECOND if report.waiting else LOOK_SECONDS

    async def close(self) -> None:
        if self._heard is not None:
            self._heard.close()
        claim, self._next = self._next, None
        events = None if claim is None else await self._open()
        if claim is not None and events is not None:
            await self._let_go(events.database, claim, "The relay was stopped.")

    # --- where the outbox is the log ---

    async def _place(self, events: Events, bus: LocalBus) -> int:
        began = self._clock.monotonic()
        placed = await bus.place(self._group)
        if placed:
            events.stats.published.update({(topic, "sent"): count for topic, count in placed.items()})
            events.stats.publish_seconds.observe(self._clock.monotonic() - began)
        return placed.total()

    # --- to another bus ---

    async def _carry(self, events: Events, bus: Bus) -> RelayReport:
        database = events.database
        claim, self._next = self._next, None
        if claim is None:
            claim = await self._claim(database)
        if claim is None:
            return RelayReport()
        group = [
            Outgoing(row.event_id, row.topic, row.partition, row.key, headers_of(row), value_of_row(row))
            for row in claim.rows
        ]
        answers: Sequence[Refused | BusAway | None]
        if self._clock.monotonic() - claim.at > self._lease_ms / (2 * SECOND):
            # This instance stood still: somebody else may have them before they would be sent.
            answers = [BusAway("The relay was too slow.")] * len(claim.rows)
        else:
            answers = await self._publish(database, bus, claim, group)
        report, self._next = await database.write(partial(self._note_and_take, database, claim, answers))
        self._count(events, group, answers, self._clock.monotonic() - claim.at)
        return report

    async def _claim(self, database: Database) -> _Claim | None:
        if not await database.read(lambda connection: connection.execute(_ANY_NEW).first()):
            return None
        return await database.write(partial(self._take, database))

    def _note_and_take(
        self,
        database: Database,
        claim: _Claim,
        answers: Sequence[Refused | BusAway | None],
        connection: Connection,
    ) -> tuple[RelayReport, _Claim | None]:
        """How these went, and what comes next: where something was sent, the next of its key may go."""
        report = self._note(database, connection, claim, answers)
        is_last = self.is_stopping or not (report.sent or report.dead)
        return report, None if is_last else self._take(database, connection)

    def _take(self, database: Database, connection: Connection) -> _Claim | None:
        claim = _Claim(uuid.uuid4().hex, [], self._clock.monotonic())
        dialect = database.backend.dialect
        now = dialect.now(connection)
        given = {"now": now, "limit": self._group, "until": now + self._lease_ms, "token": claim.token}
        early = {"early": EARLY * self._group}
        taken: list[Any] = [*connection.execute(_claim_early(dialect), given | early)]
        # Few keys with much before them, or with a predecessor that waits, must not hold up all others.
        if len(taken) < self._group // EARLY and connection.execute(_BEYOND, early).first() is not None:
            taken += connection.execute(_claim_any(dialect), given | {"limit": self._group - len(taken)})
        return claim._replace(rows=sorted(taken, key=attrgetter("seq"))) if taken else None

    async def _publish(
        self, database: Database, bus: Bus, claim: _Claim, group: Sequence[Outgoing]
    ) -> Sequence[Refused | BusAway | None]:
        try:
            return await bus.publish(group)
        except (BusAway, asyncio.CancelledError) as error:
            await self._let_go(database, claim, str(error) if isinstance(error, BusAway) else "The relay was stopped.")
            raise

    @staticmethod
    async def _let_go(database: Database, claim: _Claim, reason: str) -> None:
        """Anybody may try again at once. That it was tried counts nowhere."""
        given = [
            {"b_seq": row.seq, "b_token": claim.token, "b_next": row.next_at, "b_error": reason} for row in claim.rows
        ]
        with suppress(StoreError):  # then the lease ends by itself
            await database.write(lambda connection: connection.execute(_WAITS, given))

    @staticmethod
    def _note(
        database: Database, connection: Connection, claim: _Claim, answers: Sequence[Refused | BusAway | None]
    ) -> RelayReport:
        now = database.backend.dialect.now(connection)
        answered = list(zip(claim.rows, answers, strict=True))
        sent = [row.seq for row, answer in answered if answer is None]
        dead = [(row.seq, answer.reason) for row, answer in answered if isinstance(answer, Refused)]
        away = [(row.seq, str(answer)) for row, answer in answered if isinstance(answer, BusAway)]
        if sent:
            connection.execute(_SENT, {"seqs": sent, "token": claim.token, "now": now})
        if dead:
            given = [{"b_seq": seq, "b_token": claim.token, "b_now": now, "b_error": reason} for seq, reason in dead]
            connection.execute(_DEAD, given)
        if away:
            later = now + WAIT_MS
            given = [{"b_seq": seq, "b_token": claim.token, "b_next": later, "b_error": reason} for seq, reason in away]
            connection.execute(_WAITS, given)
        return RelayReport(len(sent), len(dead), len(away))

    @staticmethod
    def _count(
        events: Events, group: Sequence[Outgoing], answers: Sequence[Refused | BusAway | None], seconds: float
    ) -> None:
        outcomes = Counter(
            (one.topic, "sent" if answer is None else "refused" if isinstance(answer, Refused) else "waiting")
            for one, answer in zip(group, answers, strict=True)
        )
        events.stats.published.update(outcomes)
        events.stats.publish_seconds.observe(seconds)


_ANY_NEW: Final = select(outbox.c.seq).where(_IS_NEW).limit(1)
