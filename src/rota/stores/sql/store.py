"""The SQL store: verbs in transactions, on threads of its own.

SQLite has one writer thread with one connection (WAL, synchronous=FULL, BEGIN IMMEDIATE), and a second one that only
reads. PostgreSQL has a few threads, each with a connection from a pool. The event loop never touches a socket or a
file, and a call that is cancelled leaves its thread to finish in peace.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, and_, func, literal_column, select, tuple_
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from rota.clock import Clock, Millis
from rota.core.task import Identity, RunRecord, Task
from rota.errors import StoreError, StoreUnavailable
from rota.keys import GLOBAL_KEY
from rota.stores.base import Counts, Instance, Page, RunQuery, TaskQuery, page_of
from rota.stores.limits import check_cursor, check_page, check_runs
from rota.stores.sql import tables
from rota.stores.sql.backend import Backend, backend_for
from rota.stores.sql.codec import ENTRY_COLUMNS, RUN_COLUMNS, decode_entry, decode_run
from rota.stores.sql.schema import prepare
from rota.stores.sql.transaction import Conflict, SqlTransaction
from rota.stores.transaction import Transaction
from rota.stores.transactional import CALL_TIMEOUT, TransactionalStore

__all__ = ["SqlStore"]

T = TypeVar("T")

CONFLICT_TRIES = 8
"""How often a transaction that lost a race with another is run again before the caller is told."""


class SqlStore(TransactionalStore):
    """Tasks in a SQLite file or a PostgreSQL database."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self.url = url
        self._backend: Backend = backend_for(url, clock)
        super().__init__(in_flight=self._backend.in_flight)
        self._lanes: set[tuple[str, int]] = set()
        self._writers: ThreadPoolExecutor | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._shards = threading.local()

    # --- coming and going ---

    async def open(self) -> None:
        if self._writers is not None:
            return
        self._backend.check()
        # A new one: an event belongs to the loop that first waited for it.
        self._poked = asyncio.Event()
        self._writers = ThreadPoolExecutor(self._backend.writers, thread_name_prefix="rota-store")
        self._readers = ThreadPoolExecutor(1, thread_name_prefix="rota-store-read")
        try:
            await self._on_thread(self._writers, lambda: self._guarded(self._prepare), seconds=60)
        except BaseException:
            await self.close()
            raise
        self._backend.listen(asyncio.get_running_loop(), self._poked.set)

    def _prepare(self) -> None:
        with self._backend.engine.begin() as connection:
            prepare(connection)

    async def close(self) -> None:
        if self._writers is None or self._readers is None:
            return
        await self._drain()
        writers, readers, self._writers, self._readers = self._writers, self._readers, None, None
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, writers.shutdown)
        await loop.run_in_executor(None, readers.shutdown)
        await loop.run_in_executor(None, self._backend.close)

    # --- running things on the store's threads ---

    async def _transact(self, function: Callable[[Transaction], T]) -> T:
        return await self._on_thread(self._open_pool(self._writers), lambda: self._run(function))

    def _transact_blocking(self, function: Callable[[Transaction], T], timeout: float) -> T:
        future = self._open_pool(self._writers).submit(self._run, function)
        try:
            return future.result(timeout)
        except TimeoutError:
            raise StoreUnavailable(f"The store {self._name} did not answer within {timeout:g} s.") from None

    def _open_pool(self, pool: ThreadPoolExecutor | None) -> ThreadPoolExecutor:
        if pool is None:
            raise StoreUnavailable(f"The store {self._name} is not open. Use it inside `async with`, or open it first.")
        return pool

    async def _on_thread(self, pool: ThreadPoolExecutor, function: Callable[[], T], seconds: float = CALL_TIMEOUT) -> T:
        """Wait for a thread, but never cancel what it does: a transaction is finished or rolled back, not dropped."""
        work: Future[T] = pool.submit(function)
        waiting = asyncio.wrap_future(work)
        done, _ = await asyncio.wait([waiting], timeout=seconds)
        if not done:
            waiting.add_done_callback(_look_away)
            raise StoreUnavailable(
                f"The store {self._name} did not answer within {seconds:g} s. Whether the call took effect is unknown."
            )
        return waiting.result()

    def _run(self, function: Callable[[Transaction], T]) -> T:
        return self._guarded(lambda: self._commit(function))

    def _guarded(self, function: Callable[[], T]) -> T:
        """Run it again if another transaction was in the way; say what is wrong if the database is."""
        for attempt in range(1, CONFLICT_TRIES + 1):
            try:
                return function()
            except Conflict as error:
                # Two instances made the same identity at once: the next look finds it.
                if attempt == CONFLICT_TRIES:
                    raise StoreUnavailable(f"The store {self._name} is too busy: {error}, again and again.") from error
            except DBAPIError as error:
                if not self._backend.is_conflict(error) or attempt == CONFLICT_TRIES:
                    raise self._away(error) from error
            except SQLAlchemyError as error:
                raise StoreUnavailable(f"The store {self._name} cannot be reached: {error}") from error
        raise AssertionError("unreachable")

    def _away(self, error: DBAPIError) -> StoreError:
        cause = str(error.orig).strip() or type(error.orig).__name__
        if isinstance(error, OperationalError) or error.connection_invalidated:
            return StoreUnavailable(f"The store {self._name} cannot be used right now: {cause}")
        return StoreError(f"The store {self._name} refused the call: {cause}")

    def _commit(self, function: Callable[[Transaction], T]) -> T:
        with self._backend.writing() as connection:
            transaction = SqlTransaction(connection, self._backend.dialect, self._shard(), self._lanes)
            answer = function(transaction)
        if transaction.new_lanes:
            self._lanes = self._lanes | transaction.new_lanes
        return answer

    def _shard(self) -> int:
        """Each thread counts in a row of its own, so that groups in flight do not wait for each other's counters."""
        shard = getattr(self._shards, "number", None)
        if shard is None:
            shard = self._shards.number = (threading.get_ident() // 64) ^ os.getpid()
        return shard

    @property
    def _name(self) -> str:
        return self._backend.name

    async def _read(self, function: Callable[[Connection], T]) -> T:
        def run() -> T:
            with self._backend.reading() as connection:
                return function(connection)

        return await self._on_thread(self._open_pool(self._readers), lambda: self._guarded(run))

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
            if await self._has_changed():
                return True
            if loop.time() >= deadline:
                return False

    async def _has_changed(self) -> bool:
        return await self._on_thread(self._open_pool(self._writers), lambda: self._guarded(self._backend.has_changed))

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

    def engine(self) -> Engine:
        """For those who put their own rows beside Rota's: migrations, the outbox, tests."""
        return self._backend.engine


def _comes_after(query: TaskQuery) -> ColumnElement[bool]:
    c = tables.tasks.c
    task_type, key = check_cursor(query.cursor or "")
    if query.task_type == task_type:
        # Within one type the key alone decides, and the index can start right there.
        return c.key > key
    return tuple_(c.task_type, c.key) > tuple_(task_type, key)


def _look_away(future: asyncio.Future[Any]) -> None:
    """The caller has been told already; an error that comes later is nobody's surprise."""
    if not future.cancelled():
        future.exception()
