"""Reading: what fires now, and what has fired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, func, select

from rota.alerts.delivery import Delivered
from rota.clock import Instant, isoformat
from rota.core.alert import AlertChange, AlertState
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
    summary: str
    is_clearing: bool
    """Whether its condition is gone, not yet for long enough."""

    def to_dict(self) -> dict[str, object]:
        return {
            **msgspec.structs.asdict(self),
            "since_at": isoformat(self.since_at),
            "seen_at": isoformat(self.seen_at),
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

    def to_dict(self) -> dict[str, object]:
        return {**msgspec.structs.asdict(self), "at": isoformat(self.at), "state": self.state.value}


class Alerts:
    """The alerts of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def firing(self) -> list[Firing]:
        """What fires now, newest first."""
        return await self._database.read(_firing)

    async def count(self) -> int:
        """How much fires now."""
        statement = select(func.count()).select_from(states).where(_is_firing)
        return await self._database.read(lambda connection: int(connection.execute(statement).scalar_one()))

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


def _firing(connection: Connection) -> list[Firing]:
    # When it began to fire stands in the history: a state knows only since when it is as it is.
    events = history.alias()
    newest = (
        select(func.max(events.c.id))
        .where(events.c.rule == states.c.rule, events.c.subject == states.c.subject)
        .where(events.c.state == AlertChange.FIRING.value)
        .scalar_subquery()
    )
    begun = select(states, history.c.at, history.c.summary).join_from(states, history, history.c.id == newest)
    rows = connection.execute(begun.where(_is_firing).order_by(history.c.id.desc())).all()
    return [
        Firing(
            rule=row.rule,
            subject=row.subject,
            since_at=row.at,
            seen_at=row.seen_at,
            value=row.value,
            summary=row.summary,
            is_clearing=row.state == AlertState.CLEARING.value,
        )
        for row in rows
    ]


def _event(row: Row[Any]) -> AlertEvent:
    return AlertEvent(
        id=row.id,
        at=row.at,
        rule=row.rule,
        subject=row.subject,
        state=AlertChange(row.state),
        value=row.value,
        summary=row.summary,
        delivered=Delivered.decode(row.delivered).shown(),
    )
