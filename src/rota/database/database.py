"""One SQL database, used from an event loop without blocking it.

SQLite has one writer thread with one connection (WAL, synchronous=FULL, BEGIN IMMEDIATE), and a second one that only
reads. PostgreSQL has a few threads, each with a connection from a pool, and two apart, for those who block: a heartbeat
must not queue behind the calls whose leases it renews. The event loop never touches a socket or a file, and a call that
is cancelled leaves its thread to finish in peace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from rota.call_timeout import seconds_of
from rota.clock import Clock, Instant
from rota.database.backend import Backend
from rota.database.backends import backend_for
from rota.database.changes import AT_ONCE, Changes
from rota.database.driver_errors import Meaning, meaning_of
from rota.database.last_steps import LastSteps
from rota.database.later import LateStatements, send_kept
from rota.database.one_writer import OneWriter
from rota.database.schema import is_current, prepare
from rota.database.tables.tasks import meta
from rota.errors import StoreError, StoreUnavailable
from rota.group_commit import GroupCommit, write_together

__all__ = ["Conflict", "Database"]

T = TypeVar("T")
Args = TypeVarTuple("Args")

UPGRADE_SECONDS = 600.0
"""Seconds that opening waits while a big database is brought to a newer schema, here or, on PostgreSQL, by another
instance. A SQLite file that another process upgrades is refused as locked, a little before a call's limit: start again
then."""
CONFLICT_TRIES = 8
"""How often a transaction that lost a race with another is run again before the caller is told."""

_IDENTITY = select(meta.c.value).where(meta.c.name == "identity")


class Conflict(Exception):
    """Another transaction was first: this one is to be rolled back and run again."""


class Database:
    """Transactions on the database's own threads. Several parts of a program may share one: each holds it open.

    `what` is the word for it in messages; a call that takes longer than `call_timeout` seconds is given up, and what it
    did is then unknown.
    """

    def __init__(
        self, url: str, *, clock: Clock | None = None, what: str = "database", call_timeout: float | None = None
    ) -> None:
        self.url = url
        self.call_timeout = seconds_of(call_timeout)
        self.backend: Backend = backend_for(url, clock, self.call_timeout)
        # Before the changes, of which others are told when all is done.
        self.last_steps = LastSteps(self.backend.engines)
        """What is done last in a transaction."""
        self.changes = Changes(self.backend, self._version, self.call_timeout)
        """Who hears of which changes, of this process and of others."""
        if self.backend.sends_together:
            # After the changes: what tells of them travels with the commit.
            LateStatements(self.backend.engines)
        self.what = what
        self._holders = 0
        self._gate = asyncio.Lock()
        self._grouped = self._make_group()
        self._writers: ThreadPoolExecutor | None = None
        self._apart: ThreadPoolExecutor | None = None
        self._readers: ThreadPoolExecutor | None = None

    @property
    def name(self) -> str:
        """The URL without its password, for messages."""
        return self.backend.name

    @property
    def schema(self) -> str | None:
        """The schema that its tables lie in, on PostgreSQL."""
        return self.backend.schema

    @property
    def is_in_memory(self) -> bool:
        """Whether all is lost when its connection is closed, which it therefore never is."""
        return self.backend.is_in_memory

    @property
    def engine(self) -> Engine:
        """For those who put rows of their own beside Rota's, in transactions of their own."""
        return self.backend.engine

    # --- coming and going ---

    async def open(self) -> None:
        """Connect and bring the schema up to date. Opening again is counted: as many closes close it."""
        self._holders += 1
        if self._holders == 1:
            # A new one: a lock belongs to the loop that first waited for it.
            self._gate = asyncio.Lock()
            self._grouped = self._make_group()
        async with self._gate:
            if self._writers is None:
                await self._connect()

    async def _connect(self) -> None:
        try:
            self.backend.check()
            self._writers = ThreadPoolExecutor(self.backend.writers, thread_name_prefix="rota-database")
            self._apart = self._writers
            if self.backend.apart:
                self._apart = ThreadPoolExecutor(self.backend.apart, thread_name_prefix="rota-database-apart")
            self._readers = ThreadPoolExecutor(1, thread_name_prefix="rota-database-read")
            await self._on_thread(self._writers, self._prepare, seconds=UPGRADE_SECONDS)
        except BaseException:
            await self.close()
            raise

    def _prepare(self) -> None:
        with self.backend.reading() as connection:
            if is_current(connection, self.backend.schema):
                return
        with self.backend.writing() as connection:
            prepare(connection, self.backend.schema)

    async def close(self) -> None:
        """Let go; the last one to do so ends the connections. Closing what is not open is harmless."""
        self._holders = max(0, self._holders - 1)
        if self._holders:
            return
        await self._grouped.drain()
        self.changes.close()
        if self._writers is None or self._readers is None or self.is_in_memory:
            return
        pools = (self._writers, self._apart, self._readers)
        self._writers = self._apart = self._readers = None
        loop = asyncio.get_running_loop()
        for pool in pools:
            if pool is not None:
                await loop.run_in_executor(None, pool.shutdown)
        await loop.run_in_executor(None, self.backend.close)

    # --- transactions ---

    async def write(self, function: Callable[[Connection], T], *, first: str | None = None) -> T:
        """Run a function in one transaction, committed when it returns. It may run again if it loses a race. `first`:
        what it would read first of all; see `Backend.writing`."""
        return await self._on_thread(self._writers, _commit, partial(self.backend.writing, first), function)

    async def grouped(self, function: Callable[[Connection], T]) -> T:
        """The same, in one transaction with the calls that arrive while another one is being committed: two hundred
        of them cost a few commits. Each has a savepoint of its own, so one that raises takes nobody else with it."""
        # Each belongs to the call that brought it, also when another call's thread runs it.
        (answer,) = await self._grouped.submit([partial(copy_context().run, function)])
        return answer

    async def shared(self, function: Callable[[Connection], T], *, first: str | None = None) -> T:
        """The same where there is one writer, for whom each commit is time that everybody waits; where there are
        several, in a transaction of its own: what it holds is nobody else's burden."""
        return await (self.grouped(function) if self.backend.writers == 1 else self.write(function, first=first))

    def _make_group(self) -> GroupCommit[Callable[[Connection], Any], Any]:
        if self.backend.writers == 1:
            return OneWriter(self._on_the_writer, self._write_together, patience=self.call_timeout)
        return GroupCommit(
            partial(write_together, self._write_group),
            lambda _: 0,
            in_flight=self.backend.in_flight,
            patience=self.call_timeout,
        )

    async def _write_group(self, functions: list[Callable[[Connection], Any]]) -> list[Any]:
        return await self.write(partial(self._all, functions))

    def _write_together(self, functions: Sequence[Callable[[Connection], Any]]) -> list[Any]:
        return self._guarded(_commit, self.backend.writing, partial(self._all, functions))

    def _on_the_writer(self, work: Callable[[], None]) -> Future[None]:
        return self._submit(self._writers, work)

    def _all(self, functions: Sequence[Callable[[Connection], Any]], connection: Connection) -> list[Any]:
        """Each in a savepoint of its own, unless it is alone."""
        if len(functions) == 1:
            return [functions[0](connection)]
        return [self.in_savepoint(connection, each) for each in functions]

    def in_savepoint(self, connection: Connection, function: Callable[[Connection], T]) -> T | Exception:
        """Run a function as one of several in a transaction. What it raises is its answer, and nothing of it stays;
        unless that is not about it: then it is raised, because all of them are run again, or the database is away."""
        savepoint = connection.begin_nested()
        try:
            answer = function(connection)
            # Now, while the savepoint can still be undone: what is wrong with it is this function's.
            send_kept(connection)
            savepoint.commit()
        except Exception as error:
            if self.is_about_the_database(error):
                raise
            savepoint.rollback()
            return self.said(error)
        return answer

    def said(self, error: Exception) -> Exception:
        """What a function has raised in a transaction, as whoever called is told it."""
        is_of_database = isinstance(error, (SQLAlchemyError, self.backend.driver_error))
        return self._said(Meaning.REFUSED, error) if is_of_database else error

    def is_about_the_database(self, error: Exception) -> bool:
        """Whether what a transaction has raised is not about what it was to do: it is run again as it is, or the
        database is away."""
        is_of_database = isinstance(error, (SQLAlchemyError, self.backend.driver_error))
        return isinstance(error, Conflict) or (is_of_database and meaning_of(error) is not Meaning.REFUSED)

    def write_blocking(self, function: Callable[[Connection], T], timeout: float | None = None) -> T:
        """The same, from any thread, and where there is more than one writer, beside the ordinary ones."""
        seconds = self.call_timeout if timeout is None else timeout
        try:
            return self._submit(self._apart, _commit, self.backend.writing_apart, function).result(seconds)
        except TimeoutError:
            raise StoreUnavailable(f"The {self.what} {self.name} did not answer within {seconds:g} s.") from None

    async def read(self, function: Callable[[Connection], T]) -> T:
        """Run a function that only reads; where there is one writer, on one picture of the data."""
        return await self._on_thread(self._readers, _commit, self.backend.reading, function)

    async def now(self) -> Instant:
        """The database's clock."""
        return await self.write(self.backend.dialect.now)

    async def identity(self) -> str | None:
        """What tells it from every other database; None if nobody has asked for that yet."""
        return await self.read(lambda connection: connection.execute(_IDENTITY).scalar())

    async def identify(self, first: str) -> str:
        """The same, made to be `first` if there is none: made once, it is kept as long as the data is."""

        def write(connection: Connection) -> str:
            self.backend.dialect.lock_names(connection, ["identity"])
            known = connection.execute(_IDENTITY).scalar()
            if known is None:
                connection.execute(meta.insert(), {"name": "identity", "value": first})
            return known or first

        return await self.identity() or await self.write(write)

    async def _version(self) -> int:
        return await self._on_thread(self._writers, self.backend.version)

    # --- on the threads ---

    def _submit(self, pool: ThreadPoolExecutor | None, function: Callable[[*Args], T], *args: *Args) -> Future[T]:
        try:
            if pool is not None:
                return pool.submit(copy_context().run, self._guarded, function, *args)
        except RuntimeError:
            pass  # it was closed between the look and the call, on another thread
        raise StoreUnavailable(
            f"The {self.what} {self.name} is not open. Use it inside `async with`, or open it first."
        )

    async def _on_thread(
        self,
        pool: ThreadPoolExecutor | None,
        function: Callable[[*Args], T],
        *args: *Args,
        seconds: float | None = None,
    ) -> T:
        """Wait for a thread, but never cancel what it does: a transaction is finished or rolled back, not dropped."""
        seconds = self.call_timeout if seconds is None else seconds
        waiting = asyncio.wrap_future(self._submit(pool, function, *args))
        done, _ = await asyncio.wait([waiting], timeout=seconds)
        if not done:
            waiting.add_done_callback(_look_away)
            raise StoreUnavailable(
                f"The {self.what} {self.name} did not answer within {seconds:g} s."
                " Whether the call took effect is unknown."
            )
        return waiting.result()

    def _guarded(self, function: Callable[[*Args], T], *args: *Args) -> T:
        """Run it again if another transaction was in the way; say what is wrong if the database is."""
        for attempt in range(1, CONFLICT_TRIES + 1):
            try:
                return function(*args)
            except Conflict as error:
                # Two instances made the same row at once: the next look finds it.
                if attempt == CONFLICT_TRIES:
                    raise StoreUnavailable(
                        f"The {self.what} {self.name} is too busy: {error}, again and again."
                    ) from error
            except (SQLAlchemyError, self.backend.driver_error) as error:
                meaning = meaning_of(error)
                if meaning is not Meaning.CONFLICT or attempt == CONFLICT_TRIES:
                    raise self._said(meaning, error) from error
        raise AssertionError("unreachable")

    def _said(self, meaning: Meaning, error: Exception) -> StoreError:
        said = error.orig if isinstance(error, DBAPIError) else error
        cause = str(said).strip() or type(said).__name__
        if meaning is Meaning.REFUSED:
            return StoreError(f"The {self.what} {self.name} refused the call: {cause}")
        return StoreUnavailable(f"The {self.what} {self.name} cannot be used right now: {cause}")


def _commit(begin: Callable[[], AbstractContextManager[Connection]], function: Callable[[Connection], T]) -> T:
    with begin() as connection:
        connection.info[AT_ONCE] = True
        return function(connection)


def _look_away(future: asyncio.Future[Any]) -> None:
    """The caller has been told already; an error that comes later is nobody's surprise."""
    if not future.cancelled():
        future.exception()
