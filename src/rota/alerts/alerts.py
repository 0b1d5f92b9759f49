"""Reading: what fires now, and what has fired."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, func, select

from rota.alerts.delivery import Delivered
from rota.alerts.rule_states import RuleState, Standing, rule_states
from rota.alerts.silences import Silence, in_force, silenced_until
from rota.clock import Instant, isoformat
from rota.core.alert import AlertChange, AlertKind, AlertRule, AlertState
from rota.database import Database
from rota.database.tables.alerts import history, states
from rota.errors import InvalidInput
from rota.stores.base import DEFAULT_PAGE, MAX_PAGE, Page, page_of

__all__ = ["AlertEvent", "Alerts", "Firing"]


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that fires for a subject: a type, or an instance."""

    rule: str
    subject: str
    since_at: Instant
    seen_at: Instant
    """When somebody last looked."""
    value: str
    """How much it is now; when it began to fire it may have been less."""
    summary: str
    is_clearing: bool
    """Whether its condition is gone, not yet for long enough."""
    silenced_until: Instant | None = None
    """Until when its sinks are told of nothing."""

    def to_dict(self) -> dict[str, object]:
        return {
            **msgspec.structs.asdict(self),
            "since_at": isoformat(self.since_at),
            "seen_at": isoformat(self.seen_at),
            "silenced_until": isoformat(self.silenced_until),
        }


class AlertEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A rule began to fire, or was resolved. `delivered` says what became of it at each sink."""

    id: int
    at: Instant
    rule: str
    subject: str
    state: AlertChange
    value: str
    summary: str
    delivered: Mapping[str, Mapping[str, object]]
    silenced: bool = False
    """Whether nobody was told, because somebody wanted silence."""

    def to_dict(self) -> dict[str, object]:
        return {**msgspec.structs.asdict(self), "at": isoformat(self.at), "state": self.state.value}


class Alerts:
    """The alerts of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def firing(self) -> list[Firing]:
        """What fires now, newest first; also what fires in silence."""
        return await self._database.read(lambda connection: _firing(connection, self._silences(connection)))

    async def count(self) -> int:
        """How much fires now that nobody has silenced."""
        return await self._database.read(self._count)

    async def rules(self, configured: Mapping[str, AlertRule], kinds: Mapping[str, AlertKind]) -> list[RuleState]:
        """Every rule as it stands: those that are looked at, and those of this configuration that are not yet."""

        def read(connection: Connection) -> list[RuleState]:
            silences = self._silences(connection)
            return rule_states(connection, _standings(connection), silences, configured, kinds)

        return await self._database.read(read)

    def _silences(self, connection: Connection) -> list[Silence]:
        return in_force(connection, self._database.backend.dialect.now(connection))

    def _count(self, connection: Connection) -> int:
        # Next to nothing as long as nothing fires: a page that is open asks several times a second.
        rows = connection.execute(select(states.c.rule, states.c.subject).where(_is_firing)).all()
        silences = self._silences(connection) if rows else []
        return sum(silenced_until(silences, row.rule, row.subject) is None for row in rows)

    async def history(self, limit: int = DEFAULT_PAGE, cursor: str | None = None) -> Page[AlertEvent]:
        """A page of what began to fire and what was resolved, newest first."""
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidInput(f"A page of {limit} was asked for; 1 to {MAX_PAGE} is possible.")
        statement = select(history).order_by(history.c.id.desc()).limit(limit + 1)
        if cursor is not None:
            if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
                raise InvalidInput(f"The cursor {cursor!r} is none of ours. Take it from the last page, unchanged.")
            statement = statement.where(history.c.id < int(cursor))
        rows = await self._database.read(lambda connection: connection.execute(statement).all())
        return page_of([_event(row) for row in rows], limit, lambda event: str(event.id))


_is_firing = states.c.state.in_([state.value for state in AlertState if state.is_firing])


def _standings(connection: Connection) -> dict[str, list[Standing]]:
    """How the subjects of each rule are that are not well."""
    found: defaultdict[str, list[Standing]] = defaultdict(list)
    begun = {(one.rule, one.subject): one.since_at for one in _firing(connection, ())}
    rows: Sequence[Row[Any]] = connection.execute(select(states).where(states.c.rule != "")).all()
    for row in rows:
        since_at = begun.get((row.rule, row.subject))
        found[row.rule].append(Standing(AlertState(row.state), row.since_at if since_at is None else since_at))
    return found


def _firing(connection: Connection, silences: Sequence[Silence]) -> list[Firing]:
    # When it began to fire stands in the history: a state knows only since when it is as it is.
    events = history.alias()
    newest = (
        select(func.max(events.c.id))
        .where(events.c.rule == states.c.rule, events.c.subject == states.c.subject)
        .where(events.c.state == AlertChange.FIRING.value)
        .scalar_subquery()
    )
    said = history.c.summary.label("said")
    begun = select(states, history.c.at, said).join_from(states, history, history.c.id == newest)
    rows = connection.execute(begun.where(_is_firing).order_by(history.c.id.desc())).all()
    return [
        Firing(
            rule=row.rule,
            subject=row.subject,
            since_at=row.at,
            seen_at=row.seen_at,
            value=row.value,
            summary=row.said if row.summary is None else row.summary,
            is_clearing=row.state == AlertState.CLEARING.value,
            silenced_until=silenced_until(silences, row.rule, row.subject),
        )
        for row in rows
    ]


def _event(row: Row[Any]) -> AlertEvent:
    delivered = Delivered.decode(row.delivered)
    return AlertEvent(
        id=row.id,
        at=row.at,
        rule=row.rule,
        subject=row.subject,
        state=AlertChange(row.state),
        value=row.value,
        summary=row.summary,
        delivered=delivered.shown(),
        silenced=delivered.silenced,
    )
