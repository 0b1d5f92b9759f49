"""Whoever waits for the result of a subtask in this process: one look for all of them, when something was committed."""

from __future__ import annotations

import asyncio
from typing import Final

from sqlalchemy import Connection, select

from rota.batches.batch import Subtask, SubtaskStatus
from rota.batches.looking import Looker
from rota.batches.rows import subtask_of
from rota.database import Database
from rota.database.tables.batches import batch_subtasks

__all__ = ["Waiting"]

REST_SECONDS: Final = 0.01
"""Nobody waits for a task to be settled as they wait for an item: what ends in so short a time is seen by one look."""


class Waiting:
    """Those who wait, by the id of their subtask."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiters: dict[str, list[asyncio.Future[Subtask | None]]] = {}
        self._looker = Looker(database, "batch results", self._look, rest=REST_SECONDS)
        dialect = database.backend.dialect
        among = dialect.among(batch_subtasks.c.id)
        self._statuses = select(batch_subtasks.c.id, batch_subtasks.c.status).where(among)
        self._query = select(batch_subtasks).where(among)

    async def wait(self, subtask_id: str) -> Subtask | None:
        """Until the subtask is not dispatched any more; as it is then. None if it is gone."""
        future: asyncio.Future[Subtask | None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(subtask_id, []).append(future)
        try:
            # The result may have come before anybody waited.
            await self._looker.look_now()
            return await future
        finally:
            others = self._waiters[subtask_id]
            others.remove(future)
            if not others:
                del self._waiters[subtask_id]

    async def close(self) -> None:
        await self._looker.close()

    async def _look(self) -> None:
        asked = list(self._waiters)
        if not asked:
            return
        found = await self._database.read(lambda connection: self._read(connection, asked))
        for id_, subtask in found.items():
            for future in self._waiters.get(id_, ()):
                if not future.done():
                    future.set_result(subtask)

    def _read(self, connection: Connection, ids: list[str]) -> dict[str, Subtask | None]:
        """Those that are not dispatched any more. Most still are: of these nothing more is read."""
        keys = self._database.backend.dialect.keys
        rows = connection.execute(self._statuses, {"keys": keys(ids)})
        statuses: dict[str, str] = {row.id: row.status for row in rows}
        changed = [id_ for id_ in ids if statuses.get(id_) != SubtaskStatus.DISPATCHED.value]
        found: dict[str, Subtask | None] = dict.fromkeys(changed)
        if changed:
            found |= {row.id: subtask_of(row) for row in connection.execute(self._query, {"keys": keys(changed)})}
        return found
