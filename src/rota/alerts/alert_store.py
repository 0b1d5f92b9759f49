"""The alerts in the database: whose turn it is to look, where each rule stands, what is still to be told.

One instance looks at a time: its turn is a lease. Steps are written in the transaction that checks the turn again, so
two instances can never both make the same step, and what was measured by an instance that slept through its turn is
not used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, exists, func, select

from rota.alerts.delivery import OPEN, Delivered, Tried
from rota.alerts.reading import Reading
from rota.alerts.rule_states import note_rules
from rota.alerts.silences import Silence, drop_silences, in_force, silenced_until
from rota.clock import DAY, MINUTE, Instant, Millis
from rota.core.alert import LOG, AlertChange, AlertRule, AlertState, AlertStep, Known, step
from rota.database import Database
from rota.database.leases import DatabaseLease
from rota.database.tables.alerts import history, states

__all__ = ["AlertNotice", "AlertStore"]

KEPT_MS: Final[Millis] = 90 * DAY
ORPHAN_MS: Final[Millis] = 10 * MINUTE
"""After so long without a look, a rule that is not configured any more is resolved."""
MOST_OPEN: Final = 1_000
"""Notices that are looked through at a time: those of a dead sink must not hide the ones of a sink that is well."""


class AlertNotice(NamedTuple):
    """One alert on its way to its sinks."""

    id: int
    at: Instant
    rule: str
    subject: str
    change: AlertChange
    value: str
    summary: str
    delivered: Delivered


class AlertStore:
    """The writing side, as one instance uses it."""

    def __init__(self, database: Database, instance: str) -> None:
        self.database = database
        self.turn = DatabaseLease(database, "alerts", instance)
        """Whose turn it is to look."""

    def _now(self, connection: Connection) -> Instant:
        return self.database.backend.dialect.now(connection)

    # --- steps ---

    async def apply(
        self,
        readings: Sequence[Reading],
        rules: Mapping[str, AlertRule],
        gap_ms: Millis,
        unmeasured: Collection[str] = (),
        limits: Mapping[str, str] = MappingProxyType({}),
    ) -> list[AlertNotice]:
        """Make every rule's step; what began to fire and what was resolved by it. Nothing if the turn is over.

        Of the rules that are `unmeasured`, by their names, nobody knows how it is: they stay as they are. `limits` are
        the thresholds as people read them.
        """
        return await self.database.write(
            lambda connection: self._apply(connection, readings, rules, gap_ms, unmeasured, limits)
        )

    def _apply(
        self,
        connection: Connection,
        readings: Sequence[Reading],
        rules: Mapping[str, AlertRule],
        gap_ms: Millis,
        unmeasured: Collection[str],
        limits: Mapping[str, str],
    ) -> list[AlertNotice]:
        if not self.turn.is_mine(connection):
            return []
        now = self._now(connection)
        # A version before this one keeps its turn in a row without a rule.
        rows = connection.execute(select(states).where(states.c.rule != "")).all()
        known = {(str(row.rule), str(row.subject)): row for row in rows if row.rule not in unmeasured}
        seen = [*readings, *_gone(known, readings, rules, now)]
        silences = in_force(connection, now)
        notices: list[AlertNotice] = []
        for reading in seen:
            row = known.get((reading.rule, reading.subject))
            notice = self._step(connection, reading, row, rules, silences, now, gap_ms)
            notices += [] if notice is None else [notice]
        measured = {name: rule for name, rule in rules.items() if name not in unmeasured}
        note_rules(connection, measured, limits, readings, now)
        return notices

    def _step(
        self,
        connection: Connection,
        reading: Reading,
        row: Row[Any] | None,
        rules: Mapping[str, AlertRule],
        silences: Sequence[Silence],
        now: Instant,
        gap_ms: Millis,
    ) -> AlertNotice | None:
        rule = rules.get(reading.rule)
        before = None if row is None else Known(AlertState(row.state), row.since_at, row.seen_at)
        made = step(before, reading.holds, now, hold_ms=0 if rule is None else rule.for_ms, gap_ms=gap_ms)
        sinks = (LOG,) if rule is None else rule.to
        is_silent = silenced_until(silences, reading.rule, reading.subject) is not None
        was_told = row is None or bool(row.told)
        told = not is_silent if made.change is AlertChange.FIRING else was_told
        if made.change is None and made.known.state is AlertState.FIRING and not (was_told or is_silent):
            _write(connection, reading, before, made, told=True)
            return _tell_after_all(connection, reading, sinks)
        _write(connection, reading, before, made, told=told)
        if made.change is None:
            return None
        if not told:
            # Of the end of it nobody is told either who was not told of its beginning.
            return _note(connection, reading, made.change, now, Delivered.to_nobody())
        if made.change is AlertChange.RESOLVED:
            sinks = _told_of(connection, reading) or sinks
        return _note(connection, reading, made.change, now, Delivered.to(sinks))

    # --- deliveries ---

    async def undelivered(self, limit: int = MOST_OPEN) -> tuple[Instant, list[AlertNotice]]:
        """What is still to be told, oldest first, with the database's time."""
        query = select(history).where(history.c.delivered.startswith(OPEN, autoescape=True)).order_by(history.c.id)
        return await self.database.read(
            lambda connection: (self._now(connection), [*map(_notice, connection.execute(query.limit(limit)))])
        )

    async def acquire(self, notice: AlertNotice, hold_ms: Millis) -> tuple[Instant, AlertNotice] | None:
        """Take a notice on, for so long from now, and say what time it is; None if somebody else was first."""

        def acquire(connection: Connection) -> tuple[Instant, AlertNotice] | None:
            now = self._now(connection)
            held = notice._replace(delivered=notice.delivered.held_until(now + hold_ms))
            return (now, held) if _exchange(connection, notice, held) else None

        return await self.database.write(acquire)

    async def record_outcomes(self, held: AlertNotice, outcomes: Mapping[str, Tried]) -> Delivered | None:
        """Write what became of it, and give it back; None if somebody else has taken it on meanwhile."""

        def record(connection: Connection) -> Delivered | None:
            delivered = held.delivered.after(outcomes, self._now(connection))
            return delivered if _exchange(connection, held, held._replace(delivered=delivered)) else None

        return await self.database.write(record)

    async def prune(self) -> int:
        """Forget what is too old; how much that was. When something began that fires still is not forgotten."""
        still = exists().where(states.c.rule == history.c.rule, states.c.subject == history.c.subject)

        def forget(connection: Connection) -> int:
            old = history.c.at < self._now(connection) - KEPT_MS
            drop_silences(connection, self._now(connection))
            return connection.execute(history.delete().where(old, ~still)).rowcount

        return await self.database.write(forget)


def _is_at(place: tuple[str, str]) -> Any:
    return (states.c.rule == place[0]) & (states.c.subject == place[1])


def _gone(
    known: Mapping[tuple[str, str], Row[Any]],
    readings: Iterable[Reading],
    rules: Mapping[str, AlertRule],
    now: Instant,
) -> list[Reading]:
    """What is known of, and was not measured: a subject that is gone, or a rule that nobody has any more."""
    measured = {(reading.rule, reading.subject) for reading in readings}
    found: list[Reading] = []
    for (rule, subject), row in known.items():
        # Instances may have different rules for a while, so a rule that is unknown here is given time.
        if (rule, subject) in measured or (rule not in rules and now - row.seen_at < ORPHAN_MS):
            continue
        why = "is not there any more" if rule in rules else "is not looked at any more: its rule is gone"
        found.append(Reading(rule, subject, False, "-", f"{subject or 'It'} {why}."))
    return found


def _write(connection: Connection, reading: Reading, before: Known | None, made: AlertStep, *, told: bool) -> None:
    place = reading.rule, reading.subject
    if made.known.state is AlertState.OK:
        # Nothing to remember: no row means that all is well.
        if before is not None:
            connection.execute(states.delete().where(_is_at(place)))
        return
    known = made.known
    row = {"state": known.state.value, "since_at": known.since_at, "seen_at": known.seen_at, "told": int(told)}
    measured = {"value": reading.value, "summary": reading.summary}
    if before is None:
        connection.execute(states.insert().values(rule=place[0], subject=place[1], **row, **measured))
    else:
        connection.execute(states.update().where(_is_at(place)).values(**row, **measured))


def _exchange(connection: Connection, before: AlertNotice, after: AlertNotice) -> bool:
    same = (history.c.id == before.id) & (history.c.delivered == before.delivered.encode())
    return connection.execute(history.update().where(same).values(delivered=after.delivered.encode())).rowcount == 1


def _told_of(connection: Connection, reading: Reading) -> tuple[str, ...]:
    """The sinks that were told that it fires: whatever the rule says by now, it is they who wait for the end of it."""
    place = (history.c.rule == reading.rule) & (history.c.subject == reading.subject)
    newest = select(history.c.delivered).where(place).order_by(history.c.id.desc()).limit(1)
    return tuple(Delivered.decode(connection.execute(newest).scalar()).sinks)


def _tell_after_all(connection: Connection, reading: Reading, sinks: Iterable[str]) -> AlertNotice | None:
    """The silence is over and it still fires: what was kept back is told now, as it is by now."""
    place = (history.c.rule == reading.rule) & (history.c.subject == reading.subject)
    newest = select(func.max(history.c.id)).where(place).scalar_subquery()
    now_told = {"value": reading.value, "summary": reading.summary, "delivered": Delivered.to(sinks).encode()}
    told = history.update().where(history.c.id == newest).values(**now_told).returning(history)
    row = connection.execute(told).one_or_none()
    return None if row is None else _notice(row)


def _note(
    connection: Connection, reading: Reading, change: AlertChange, now: Instant, delivered: Delivered
) -> AlertNotice:
    row = {
        "at": now,
        "rule": reading.rule,
        "subject": reading.subject,
        "state": change.value,
        "value": reading.value,
        "summary": reading.summary,
    }
    made = connection.execute(history.insert().values(**row, delivered=delivered.encode()).returning(history.c.id))
    return AlertNotice(
        made.scalar_one(), now, reading.rule, reading.subject, change, reading.value, reading.summary, delivered
    )


def _notice(row: Row[Any]) -> AlertNotice:
    return AlertNotice(
        row.id,
        row.at,
        row.rule,
        row.subject,
        AlertChange(row.state),
        row.value,
        row.summary,
        Delivered.decode(row.delivered),
    )
