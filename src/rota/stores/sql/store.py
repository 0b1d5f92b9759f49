"""The SQL store: verbs in transactions, on the threads of its database."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from rota.clock import Clock, Instant, Millis
from rota.core.history import Resolution, Slice
from rota.core.task import Identity, RunRecord, Task
from rota.database import Database
from rota.database.changes import Subscription
from rota.stores.base import (
    Counts,
    Erasure,
    Failures,
    Instance,
    Page,
    QueuePosition,
    RunQuery,
    RunRef,
    RunSort,
    TaskQuery,
    TaskSort,
    TypeRecord,
)
from rota.stores.limits import check_find, check_identity, check_run, check_runs
from rota.stores.sql import queries, sorted_pages
from rota.stores.sql.transaction import TASKS_CHANGED, TYPES, Lanes, SqlTransaction
from rota.stores.transaction import WholeTransaction
from rota.stores.transactional import TransactionalStore

__all__ = ["SqlStore"]

T = TypeVar("T")


class _Shard(threading.local):
    """Each thread counts in a row of its own, so that groups in flight do not wait for each other's counters."""

    def __init__(self) -> None:
        self.shard = (threading.get_ident() // 64) ^ os.getpid()


class SqlStore(TransactionalStore):
    """Tasks in a SQLite file or a PostgreSQL database."""

    def __init__(self, url: str, *, clock: Clock | None = None, call_timeout: float | None = None) -> None:
        self.url = url
        self.database = Database(url, clock=clock, what="store", call_timeout=call_timeout)
        """Where the store's rows live; others may put theirs beside them."""
        self._backend = self.database.backend
        super().__init__(
            in_flight=self._backend.in_flight, group_size=self._backend.group_size, call_timeout=call_timeout
        )
        self._lanes: Lanes = frozenset()
        self._counted_in = _Shard()
        self._heard: Subscription | None = None
        self._is_open = False

    # --- coming and going ---

    async def open(self) -> None:
        if self._is_open:
            return
        await self.database.open()
        self._is_open = True
        self._heard = await self.database.changes.subscribe(TASKS_CHANGED)

    async def close(self) -> None:
        if not self._is_open:
            return
        await self._drain()
        self._is_open = False
        if self._heard is not None:
            self._heard.close()
        await self.database.close()

    # --- in transactions ---

    async def _transact(self, function: Callable[[WholeTransaction], T]) -> T:
        answer, lanes = await self.database.shared(partial(self._step, function), first=TYPES)
        self._lanes |= lanes
        return answer

    def _transact_blocking(self, function: Callable[[WholeTransaction], T], timeout: float) -> T:
        answer, lanes = self.database.write_blocking(partial(self._step, function), timeout)
        self._lanes |= lanes
        return answer

    def _step(self, function: Callable[[WholeTransaction], T], connection: Connection) -> tuple[T, Lanes]:
        """The function's answer, and the lanes that are known to be written once this is committed."""
        transaction = SqlTransaction(
            connection, self._backend.dialect, self.database.changes, self._counted_in.shard, self._lanes
        )
        return function(transaction), transaction.new_lanes

    # --- waiting ---

    async def wait(self, timeout_ms: Millis) -> bool:
        assert self._heard is not None, "whoever waits has opened the store"
        return await self._heard.wait(timeout_ms / 1_000)

    def _wake(self) -> None:
        """Who waits hears of the commit itself."""

    # --- queries ---

    async def now(self) -> Instant:
        return await self.database.read(self._backend.dialect.now)

    async def list_types(self) -> list[TypeRecord]:
        found, _ = await self.database.read(partial(self._step, lambda transaction: transaction.types()))
        self._known_types.update(found)
        return [found[name] for name in sorted(found)]

    async def noted(self, name: str) -> str | None:
        noted, _ = await self.database.read(partial(self._step, lambda transaction: transaction.noted(name)))
        return noted

    async def get(self, identities: Sequence[Identity]) -> list[Task | None]:
        return await self.database.read(lambda connection: queries.get(connection, identities)) if identities else []

    async def find(self, query: TaskQuery) -> Page[Task]:
        check_find(query)
        return await self.database.read(lambda connection: _find(connection, query))

    async def find_many(self, asked: Sequence[TaskQuery]) -> list[Page[Task]]:
        for query in asked:
            check_find(query)
        return await self.database.read(lambda connection: [_find(connection, query) for query in asked])

    async def runs(self, query: RunQuery) -> Page[RunRecord]:
        check_runs(query)
        in_order = queries.runs if query.sort is RunSort.NEWEST else sorted_pages.runs
        return await self.database.read(lambda connection: in_order(connection, query))

    async def counts(self) -> dict[str, Counts]:
        return await self.database.read(queries.counts)

    async def next_due_by_type(self) -> dict[str, Instant]:
        return await self.database.read(queries.next_due_by_type)

    async def queue_position(self, identity: Identity, *, now: Instant | None = None) -> QueuePosition:
        check_identity(identity)
        clock = self._backend.dialect.now
        return await self.database.read(
            lambda connection: queries.queue_position(connection, identity, clock(connection) if now is None else now)
        )

    async def history(
        self,
        resolution: Resolution,
        since_at: Instant,
        until_at: Instant | None = None,
        *,
        task_type: str | None = None,
    ) -> list[Slice]:
        return await self.database.read(
            lambda connection: queries.history(connection, resolution, since_at, until_at, task_type)
        )

    async def details(self, runs: Sequence[RunRef]) -> list[str | None]:
        for run in runs:
            check_run(run)
        return await self.database.read(lambda connection: queries.details(connection, runs)) if runs else []

    async def failures(self, task_type: str | None = None, failure_id: str | None = None) -> list[Failures]:
        return await self.database.read(lambda connection: queries.failures(connection, task_type, failure_id))

    async def erasures(self, *, with_done: bool = False) -> list[Erasure]:
        return await self.database.read(lambda connection: queries.erasures(connection, with_done=with_done))

    async def instances(self) -> list[Instance]:
        return list(await self._transact(lambda transaction: transaction.instances()))


def _find(connection: Connection, query: TaskQuery) -> Page[Task]:
    return (queries.find if query.sort is TaskSort.KEY else sorted_pages.find)(connection, query)
