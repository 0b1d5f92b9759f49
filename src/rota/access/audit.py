"""The audit log: who did what, to what, how it was before and after.

An entry is written before the action and completed after it. One without an outcome means that the process died in
between, or that the database went away: something was tried, and the log says so.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
from sqlalchemy import Connection, select

from rota.access.principal import Principal
from rota.clock import Instant, isoformat
from rota.database import Database
from rota.database.tables.access import audit as table
from rota.errors import InvalidInput, RotaError, StoreError
from rota.logs import get_logger

__all__ = ["AuditEntry", "AuditLog", "AuditQuery", "Note"]

DEFAULT_PAGE = 50
MAX_PAGE = 200
MAX_PICTURE = 4_000
"""Characters of a before or an after that are kept."""

log = get_logger("rota.audit")


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One action."""

    id: int
    at: Instant
    actor: str
    role: str
    via: str
    action: str
    target: str
    outcome: str | None
    before: str | None
    after: str | None

    def to_dict(self) -> dict[str, object]:
        return {**msgspec.structs.asdict(self), "at": isoformat(self.at)}


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries to list, newest first. `cursor` is the id that the last page ended with."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    cursor: str | None = None
    limit: int = DEFAULT_PAGE


class Note:
    """What an action leaves for its entry."""

    def __init__(self) -> None:
        self.before: object = None
        self.after: object = None
        self.outcome = "ok"


class AuditLog:
    """The audit log of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def recording(self, principal: Principal, action: str, target: str) -> AsyncGenerator[Note]:
        """Record what the block does. It may set `note.before`, `note.after` and `note.outcome`; an error is kept as
        the outcome and goes on. What was done is done, even if its entry cannot be completed."""
        entry = await self._begin(principal, action, target)
        note = Note()
        try:
            yield note
        except RotaError as error:
            note.outcome = f"{error.code}: {error}"
            raise
        except Exception as error:
            note.outcome = f"error: {type(error).__name__}"
            raise
        except BaseException:  # cancelled: whoever asked hung up, or the process ends
            note.outcome = "interrupted"
            raise
        finally:
            await self._complete(entry, note)

    def add(self, connection: Connection, principal: Principal, action: str, target: str, after: object = None) -> None:
        """An entry of what is done in the caller's own transaction: both are there, or neither is."""
        now = self._database.backend.dialect.now(connection)
        row = {**_about(principal, action, target), "at": now, "outcome": Note().outcome, "after": _picture(after)}
        connection.execute(table.insert(), row)

    async def page(self, query: AuditQuery) -> tuple[list[AuditEntry], str | None]:
        """A page of entries, newest first, and the cursor of the next one."""
        if not 1 <= query.limit <= MAX_PAGE:
            raise InvalidInput(f"A page of {query.limit} was asked for; 1 to {MAX_PAGE} is possible.")
        statement = select(table).order_by(table.c.id.desc()).limit(query.limit + 1)
        for column, value in (
            (table.c.actor, query.actor),
            (table.c.action, query.action),
            (table.c.target, query.target),
        ):
            if value is not None:
                statement = statement.where(column == value)
        if query.cursor is not None:
            if not (query.cursor.isascii() and query.cursor.isdigit() and len(query.cursor) < 19):
                raise InvalidInput(
                    f"The cursor {query.cursor!r} is none of ours. Take it from the last page, unchanged."
                )
            statement = statement.where(table.c.id < int(query.cursor))
        rows = await self._database.read(lambda connection: connection.execute(statement).mappings().all())
        entries = [AuditEntry(**{str(name): value for name, value in row.items()}) for row in rows[: query.limit]]
        return entries, (str(entries[-1].id) if len(rows) > query.limit else None)

    async def _begin(self, principal: Principal, action: str, target: str) -> int:
        row = _about(principal, action, target)

        def write(connection: Connection) -> int:
            now = self._database.backend.dialect.now(connection)
            made = connection.execute(table.insert().values(**row, at=now).returning(table.c.id))
            return made.scalar_one()

        return await self._database.write(write)

    async def _complete(self, entry: int, note: Note) -> None:
        values = {
            "outcome": note.outcome[:MAX_PICTURE],
            "before": _picture(note.before),
            "after": _picture(note.after),
        }
        statement = table.update().where(table.c.id == entry).values(**values)
        try:
            await self._database.write(lambda connection: connection.execute(statement))
        except StoreError as error:
            # An error here would tell whoever asked that nothing happened, and hide why the action itself failed.
            log.error("audit entry without outcome", entry=entry, outcome=values["outcome"], error=str(error))


def _about(principal: Principal, action: str, target: str) -> dict[str, str]:
    return {
        "actor": principal.id,
        "role": principal.role.value,
        "via": principal.via,
        "action": action,
        "target": target[:MAX_PICTURE],
    }


def _picture(value: object) -> str | None:
    """A value as text, short enough to keep."""
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=_plain).decode()
    return text if len(text) <= MAX_PICTURE else text[: MAX_PICTURE - 1] + "…"


def _plain(value: Any) -> Any:
    return dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else str(value)
