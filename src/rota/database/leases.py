"""A turn over all instances, for what one of them is enough for: a row with an end, by the database's clock.

Whoever finds a lease over takes it. What is done under one is written in a transaction that looks at it again
(`is_mine`), so an instance that slept through its turn writes nothing.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from rota.clock import Millis
from rota.database.database import Database
from rota.database.tables.leases import leases

__all__ = ["DatabaseLease"]

_FARTHEST = 10
"""So many times its own length ahead no lease can end: the clock was set back since it was taken."""


class DatabaseLease:
    """One lease, as one instance sees it."""

    def __init__(self, database: Database, name: str, holder: str) -> None:
        self._database = database
        self._name = name
        self._holder = holder

    async def take(self, length_ms: Millis) -> bool:
        """Whether it is this instance's turn, for so long from now."""
        return await self._database.write(lambda connection: self._take(connection, length_ms))

    async def give_back(self) -> None:
        """Somebody else may have it at once."""
        mine = (leases.c.name == self._name) & (leases.c.holder == self._holder)
        await self._database.write(lambda connection: connection.execute(delete(leases).where(mine)))

    def is_mine(self, connection: Connection) -> bool:
        """Whether the turn is not over yet. Nobody else takes it until the transaction ends."""
        row = self._row(connection)
        now = self._database.backend.dialect.now(connection)
        return row is not None and row.holder == self._holder and row.until_at >= now

    def _take(self, connection: Connection, length_ms: Millis) -> bool:
        row = self._row(connection)
        now = self._database.backend.dialect.now(connection)
        if row is not None and row.holder != self._holder and now < row.until_at <= now + _FARTHEST * length_ms:
            return False
        mine = {"holder": self._holder, "until_at": now + length_ms}
        if row is None:
            connection.execute(insert(leases).values(name=self._name, **mine))
        else:
            connection.execute(update(leases).where(leases.c.name == self._name).values(**mine))
        return True

    def _row(self, connection: Connection) -> Row[Any] | None:
        # Nobody else looks at it until this transaction ends, not even while there is no row yet.
        self._database.backend.dialect.lock_names(connection, [f"rota lease {self._name}"])
        return connection.execute(select(leases).where(leases.c.name == self._name)).one_or_none()
