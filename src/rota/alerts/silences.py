"""Silence: for a time nobody is told of a rule, or of one of its subjects.

What fires in silence is shown all the same, and when the silence is over and it still fires, its sinks are told then.
It is kept in the database, so it holds over all instances, and over their restarts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, select

from rota.clock import DAY, MINUTE, Instant, Millis, format_duration, isoformat
from rota.database import Database
from rota.database.tables.alerts import silences
from rota.errors import InvalidInput

__all__ = ["Silence", "Silences", "drop_silences", "in_force", "silenced_until"]

SHORTEST_MS: Final[Millis] = MINUTE
LONGEST_MS: Final[Millis] = 30 * DAY
"""Whoever wants to hear of it never again takes the rule out of the configuration."""
MAX_REASON: Final = 500
"""Characters."""


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants silence of what, until when, and why."""

    rule: str
    subject: str
    """One type or instance; '' for all that the rule looks at."""
    until_at: Instant
    made_at: Instant
    made_by: str
    reason: str

    def covers(self, rule: str, subject: str) -> bool:
        return self.rule == rule and self.subject in ("", subject)

    def to_dict(self) -> dict[str, object]:
        return {
            **msgspec.structs.asdict(self),
            "until_at": isoformat(self.until_at),
            "made_at": isoformat(self.made_at),
        }


class Silences:
    """The silences of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, rule: str, subject: str = "") -> Silence | None:
        """The silence of exactly this, if it is in force."""
        found = await self._database.read(lambda connection: in_force(connection, self._now(connection)))
        return next((each for each in found if (each.rule, each.subject) == (rule, subject)), None)

    async def add(self, rule: str, subject: str, duration_ms: Millis, by: str, reason: str = "") -> Silence:
        """Silence from now on, in the place of one that was there."""
        if not SHORTEST_MS <= duration_ms <= LONGEST_MS:
            raise InvalidInput(
                f"A silence of {format_duration(duration_ms)} was asked for; {format_duration(SHORTEST_MS)} to"
                f" {format_duration(LONGEST_MS)} is possible.",
                field="for",
            )
        if len(reason) > MAX_REASON:
            raise InvalidInput(
                f"The reason has {len(reason):,} characters; {MAX_REASON} are possible. Say less.", field="reason"
            )

        def write(connection: Connection) -> Silence:
            now = self._now(connection)
            made = Silence(
                rule=rule, subject=subject, until_at=now + duration_ms, made_at=now, made_by=by, reason=reason
            )
            connection.execute(silences.delete().where(_is(rule, subject)))
            connection.execute(silences.insert().values(**msgspec.structs.asdict(made)))
            return made

        return await self._database.write(write)

    async def remove(self, rule: str, subject: str = "") -> bool:
        """Let it be heard again; False if it was."""

        def write(connection: Connection) -> bool:
            was_in_force = _is(rule, subject) & (silences.c.until_at > self._now(connection))
            return connection.execute(silences.delete().where(was_in_force)).rowcount > 0

        return await self._database.write(write)

    def _now(self, connection: Connection) -> Instant:
        return self._database.backend.dialect.now(connection)


def in_force(connection: Connection, now: Instant) -> list[Silence]:
    """What is silent now, the one that ends first first."""
    statement = select(silences).where(silences.c.until_at > now).order_by(silences.c.until_at)
    return [Silence(**row) for row in connection.execute(statement).mappings()]


def silenced_until(found: Iterable[Silence], rule: str, subject: str) -> Instant | None:
    """Until when nobody is told of this; None if everybody is."""
    return max((each.until_at for each in found if each.covers(rule, subject)), default=None)


def drop_silences(connection: Connection, now: Instant) -> None:
    """Forget those that are over."""
    connection.execute(silences.delete().where(silences.c.until_at <= now))


def _is(rule: str, subject: str) -> Any:
    return (silences.c.rule == rule) & (silences.c.subject == subject)
