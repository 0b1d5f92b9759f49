"""The SQL store: verbs in transactions, on the threads of its database."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, and_, func, literal_column, select, tuple_

from rota.clock import Clock, Millis
from rota.core.task import Identity, RunRecord, Task
from rota.database import Database
from rota.database.tables import tasks as tables
from rota.keys import GLOBAL_KEY
from rota.stores.base import Counts, Instance, Page, RunQuery, TaskQuery, page_of
from rota.stores.limits import check_cursor, check_page, check_runs
from rota.stores.sql.codec import ENTRY_COLUMNS, RUN_COLUMNS, decode_entry, decode_run
from rota.stores.sql.transaction import SqlTransaction
from rota.stores.transaction import Transaction
from rota.stores.transactional import TransactionalStore

__all__ = ["SqlStore"]

T = TypeVar("T")


class SqlStore(TransactionalStore):
    """Tasks in a SQLite file or a PostgreSQL database."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self.url = url
        self.database = Database(url, clock=clock, what="store")
        """Where the store's rows live; others may put theirs beside them."""
        self._backend = self.database.backend
        super().__init__(in_flight=self._backend.in_flight)
        self._lanes: set[tuple[str, int]] = set()
        self._shards = threading.local()
        self._is_open = False

    # --- coming and going ---

    async def open(self) -> None:
        if self._is_open:
            return
        # A new one: an event belongs to the loop that first waited for it.
        self._poked = asyncio.Event()
        await self.database.open()
        self._is_open = True
        self._backend.listen(asyncio.get_running_loop(), self._poked.set)

    async def close(self) -> None:
        if not self._is_open:
            return
        await self._drain()
        self._is_open = False
        await self.database.close()

    # --- in transactions ---

    async def _transact(self, function: Callable[[Transaction], T]) -> T:
        answer, lanes = await self.database.write(lambda connection: self._step(connection, function))
        return self._committed(answer, lanes)

    def _transact_blocking(self, function: Callable[[Transaction], T], timeout: float) -> T:
        answer, lanes = self.database.write_blocking(lambda connection: self._step(connection, function), timeout)
        return self._committed(answer, lanes)

    def _step(self, connection: Connection, function: Callable[[Transaction], T]) -> tuple[T, set[tuple[str, int]]]:
        transaction = SqlTransaction(connection, self._backend.dialect, self._shard(), self._lanes)
        return function(transaction), transaction.new_lanes

    def _committed(self, answer: T, lanes: set[tuple[str, int]]) -> T:
        """Lanes are known to be written only now."""
        if lanes:
            self._lanes = self._lanes | lanes
        return answer

    def _shard(self) -> int:
        """Each thread counts in a row of its own, so that groups in flight do not wait for each other's counters."""
        shard = getattr(self._shards, "number", None)
        if shard is None:
            shard = self._shards.number = (threading.get_ident() // 64) ^ os.getpid()
        return shard

    async def _read(self, function: Callable[[Connection], T]) -> T:
        return await self.database.read(function)

    # --- waiting ---

    async def wait(self, timeout_ms: Millis) -> bool:
        if not self._backend.must_look:
            return await self._wait_for_poke(timeout_ms / 1_000)
        return await self._wait_and_look(timeout_ms / 1_000)

    async def _wait_for_poke(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._poked.wait()
        except TimeoutError:
            return False
        self._poked.clear()
        return True

    async def _wait_and_look(self, seconds: float) -> bool:
        """SQLite cannot tell other processes; they look whether the file has changed, often after activity."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        deadline = started + max(seconds, 0)
        while True:
            pause = 0.005 if loop.time() - started < 1 else 0.05
            if await self._wait_for_poke(min(pause, deadline - loop.time())):
                return True
            if await self.database.has_changed():
                return True
            if loop.time() >= deadline:
                return False

    # --- looking ---

    async def get(self, identities: Sequence[Identity]) -> list[Task | None]:
        wanted = list(identities)
        if not wanted:
            return []

        def run(connection: Connection) -> list[Task | None]:
            identity = tuple_(tables.tasks.c.task_type, tables.tasks.c.key)
            query = select(*ENTRY_COLUMNS).where(identity.in_(wanted))
            entries = [decode_entry(row) for row in connection.execute(query)]
            found = {entry.task.identity: entry.task for entry in entries if entry.task is not None}
            return [found.get(identity) for identity in wanted]

        return await self._read(run)

    async def find(self, query: TaskQuery) -> Page[Task]:
        check_page(query.limit)
        c = tables.tasks.c
        conditions: list[ColumnElement[bool]] = [c.status.is_not(None)]
        for column, value in ((c.task_type, query.task_type), (c.user_id, query.user_id), (c.owner, query.owner)):
            if value is not None:
                conditions.append(column == value)
        if query.status is not None:
            # A literal: a partial index is only taken when its condition can be read in the statement.
            conditions.append(c.status == literal_column(f"'{query.status.value}'"))
        if query.schedules:
            conditions += [c.trigger.is_not(None), c.key != GLOBAL_KEY]
        if query.cursor is not None:
            conditions.append(_comes_after(query))
        statement = select(*ENTRY_COLUMNS).where(and_(*conditions)).order_by(c.task_type, c.key).limit(query.limit + 1)
        rows = await self._read(lambda connection: connection.execute(statement).all())
        found = [task for row in rows if (task := decode_entry(row).task) is not None]
        return page_of(found, query.limit, lambda task: str(task.identity))

    async def runs(self, query: RunQuery) -> Page[RunRecord]:
        check_runs(query)
        c = tables.run_logs.c
        conditions: list[ColumnElement[bool]] = [c.id > 0]
        for column, value in ((c.task_type, query.task_type), (c.key, query.key), (c.user_id, query.user_id)):
            if value is not None:
                conditions.append(column == value)
        if query.status is not None:
            conditions.append(c.status == literal_column(f"'{query.status.value}'"))
        if query.run_id is not None:
            conditions.append(c.id == int(query.run_id))
        if query.cursor is not None:
            conditions.append(c.id < int(query.cursor))
        statement = select(*RUN_COLUMNS).where(and_(*conditions)).order_by(c.id.desc()).limit(query.limit + 1)
        rows = await self._read(lambda connection: connection.execute(statement).all())
        return page_of([decode_run(row) for row in rows], query.limit, lambda run: run.run_id)

    async def counts(self) -> dict[str, Counts]:
        c = tables.task_counts.c
        sums = [func.sum(c[name]) for name in tables.COUNTERS]
        statement = select(c.task_type, *sums).group_by(c.task_type)
        rows = await self._read(lambda connection: connection.execute(statement).all())
        return {row[0]: Counts(*(int(value) for value in row[1:])) for row in rows}

    async def instances(self) -> list[Instance]:
        return list(await self._transact(lambda transaction: transaction.instances()))


def _comes_after(query: TaskQuery) -> ColumnElement[bool]:
    c = tables.tasks.c
    task_type, key = check_cursor(query.cursor or "")
    if query.task_type == task_type:
        # Within one type the key alone decides, and the index can start right there.
        return c.key > key
    return tuple_(c.task_type, c.key) > tuple_(task_type, key)
