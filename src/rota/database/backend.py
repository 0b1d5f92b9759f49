"""The two databases: how to connect, how to write and read, how to hear of others' changes."""

from __future__ import annotations

import asyncio
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from rota.clock import SECOND, Clock, Millis, SystemClock
from rota.database.dialect import Dialect, Postgres, Sqlite
from rota.database.driver_errors import is_wrong_server
from rota.database.names import path_of, quoted, without_schema
from rota.errors import InvalidConfig
from rota.forking import ClosedForForks, refuse_inherited
from rota.private_files import prepare_sqlite

__all__ = ["Backend", "backend_for"]


class Backend(ABC):
    """One database, as the store sees it."""

    name: str
    """The URL without its password, for messages."""
    engine: Engine
    dialect: Dialect
    writers: int
    apart: int
    """How many connections are kept for those who must not wait behind the writers; 0: there is one writer for all."""
    in_flight: int
    must_look: bool
    """Whether other processes' changes must be looked for, because nobody tells."""
    schema: str | None = None
    """The schema that Rota's tables lie in, where a database has schemas."""

    is_in_memory: bool = False

    @property
    def driver_error(self) -> type[Exception]:
        """What the driver raises where SQLAlchemy does not stand between."""
        return self.engine.dialect.loaded_dbapi.Error

    @abstractmethod
    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that commits at the end of the block."""

    @abstractmethod
    def writing_apart(self) -> AbstractContextManager[Connection]:
        """The same, on a connection that ordinary calls never take."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]: ...

    @abstractmethod
    def has_changed(self) -> bool:
        """Whether another process has written since the last look."""

    @abstractmethod
    def check(self) -> None:
        """Refuse what can be seen to be wrong before the first connection is made."""

    @abstractmethod
    def listen(self, loop: asyncio.AbstractEventLoop, poke: Callable[[], None]) -> None:
        """Call `poke` on the loop whenever another instance makes something due soon."""

    @abstractmethod
    def close(self) -> None: ...


def backend_for(url: str, clock: Clock | None, call_timeout: float) -> Backend:
    """The database at a URL. What the database itself waits for, it gives up before a caller gives up waiting for it:
    every limit here is a part of `call_timeout`, in seconds."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InvalidConfig(f"The store URL {url!r} cannot be read. Use e.g. sqlite:///rota.db.") from None
    if parsed.get_backend_name() == "sqlite":
        return SqliteBackend(parsed, clock, call_timeout)
    return PostgresBackend(parsed, clock, call_timeout)


# --- SQLite ---------------------------------------------------------------------------------------------------------

_SYNCHRONOUS = ("FULL", "NORMAL", "OFF", "EXTRA")


class SqliteBackend(Backend):
    """One file, one writer."""

    writers = 1
    apart = 0
    in_flight = 1
    must_look = True

    def __init__(self, url: URL, clock: Clock | None, call_timeout: float) -> None:
        path = url.database or ""
        self.is_in_memory = path in ("", ":memory:")
        self.name = url.render_as_string()
        self._synchronous = str(url.query.get("synchronous", "FULL")).upper()
        if self._synchronous not in _SYNCHRONOUS:
            raise InvalidConfig(
                f"synchronous={self._synchronous} in {self.name} is none of: {', '.join(_SYNCHRONOUS)}."
            )
        self._path = Path(path)
        self._lock_seconds = 0.9 * call_timeout
        self.dialect = Sqlite(clock or SystemClock())
        plain = url.set(query={})
        self.engine = self._engine(plain, "journal_mode = WAL", begin="BEGIN IMMEDIATE")
        # What is in memory belongs to one connection, which then reads too; SQLite lets one thread at a time use it.
        self._reader = self.engine if self.is_in_memory else self._engine(plain, begin="BEGIN")
        self._to_write = threading.Lock()
        self._to_read = self._to_write if self.is_in_memory else threading.Lock()
        self._data_version: int | None = None
        # What is in memory would be lost by closing it.
        turns = (self._to_write, self._to_read)
        self._around_forks = None if self.is_in_memory else ClosedForForks(self._path, self.close, *turns)

    def _engine(self, url: URL, *pragmas: str, begin: str) -> Engine:
        given = {"check_same_thread": False, "timeout": self._lock_seconds}
        engine = create_engine(url, poolclass=StaticPool, connect_args=given)

        @event.listens_for(engine, "connect")
        def _connected(connection: Any, _record: Any) -> None:
            # The driver must not open transactions of its own: ours begin with a lock, or not at all.
            connection.isolation_level = None
            for pragma in (*pragmas, *self._pragmas()):
                connection.execute(f"PRAGMA {pragma}").fetchall()

        @event.listens_for(engine, "begin")
        def _begun(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        return engine

    def _pragmas(self) -> tuple[str, ...]:
        # FULL keeps every acknowledged commit over a power cut; no mmap, which hides I/O errors as signals.
        return (
            f"synchronous = {self._synchronous}",
            "mmap_size = 0",
            "foreign_keys = ON",
            "cache_size = -65536",
            "wal_autocheckpoint = 4000",
        )

    @contextmanager
    def writing(self) -> Generator[Connection]:
        with self._to_write, self.engine.begin() as connection:
            yield connection

    writing_apart = writing

    @contextmanager
    def reading(self) -> Generator[Connection]:
        with self._to_read, self._reader.begin() as connection:
            yield connection

    def check(self) -> None:
        if not self.is_in_memory and not self._path.parent.is_dir():
            raise InvalidConfig(f"The folder of {self.name} does not exist. Create {self._path.parent} first.")
        refuse_inherited(self._path)
        if not self.is_in_memory:
            prepare_sqlite(self._path)

    def has_changed(self) -> bool:
        # Asked on the writer's own connection, so that its own commits do not count.
        with self._to_write:
            raw = self.engine.raw_connection()
            try:
                version = raw.cursor().execute("PRAGMA data_version").fetchone()[0]
            finally:
                raw.close()
        known, self._data_version = self._data_version, version
        return known is not None and known != version

    def listen(self, loop: asyncio.AbstractEventLoop, poke: Callable[[], None]) -> None:
        """Nobody tells: `has_changed` looks."""

    def close(self) -> None:
        self.engine.dispose()
        self._reader.dispose()
        # The next connection counts from another number, and somebody may have written meanwhile: it has changed.
        self._data_version = None if self._data_version is None else -1


# --- PostgreSQL -----------------------------------------------------------------------------------------------------

LISTEN_SLICE = 2.0
"""Seconds that the listener waits at most before it looks whether it should stop."""


class PostgresLimits(NamedTuple):
    """What the server and the pool may take out of one call's limit, so that they are heard before it is over."""

    statement_ms: Millis
    lock_ms: Millis
    idle_ms: Millis
    """Whoever stands still in a transaction, frozen or cut off, holds its rows no longer than others wait for them."""
    pool_seconds: float
    connect_seconds: int

    @classmethod
    def of(cls, call_timeout: float) -> PostgresLimits:
        whole = call_timeout * SECOND
        return cls(
            statement_ms=math.ceil(whole),
            lock_ms=math.ceil(0.8 * whole),
            idle_ms=math.ceil(0.6 * whole),
            pool_seconds=0.8 * call_timeout,
            connect_seconds=max(2, math.ceil(call_timeout)),  # less than two are two for the driver
        )


class PostgresBackend(Backend):
    """A few connections, LISTEN and NOTIFY."""

    writers = 4
    apart = 2
    in_flight = 3
    must_look = False

    def __init__(self, url: URL, clock: Clock | None, call_timeout: float) -> None:
        if find_spec("psycopg") is None:
            raise InvalidConfig("PostgreSQL needs a driver: pip install 'rota[postgres]'.")
        self.name = url.render_as_string(hide_password=True)
        self._url = without_schema(url).set(drivername="postgresql+psycopg")
        path = path_of(url)
        self.schema = path[0]
        self._search_path = ", ".join(map(quoted, path))
        self._channel = f"rota_{self.schema}".encode()[:63].decode(errors="ignore")
        self.dialect = Postgres(self.schema, self._channel, clock)
        self._limits = PostgresLimits.of(call_timeout)
        self.engine = self._engine(pool_size=self.writers + 1, max_overflow=1)
        self._apart = self._engine(pool_size=self.apart, max_overflow=0)
        self._stopping = threading.Event()
        self._listener: threading.Thread | None = None

    def _engine(self, *, pool_size: int, max_overflow: int) -> Engine:
        engine = create_engine(
            self._url,
            paramstyle="format",
            poolclass=QueuePool,
            pool_size=pool_size,
            max_overflow=max_overflow,
            pool_timeout=self._limits.pool_seconds,
            pool_recycle=1_800,
            # A host that swallows packets is away, not slow: left to the system, connecting takes minutes.
            connect_args={"connect_timeout": self._connect_seconds()},
        )
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "handle_error", _leave_wrong_server)
        return engine

    def _connect_seconds(self) -> str:
        return str(self._url.query.get("connect_timeout", self._limits.connect_seconds))

    def check(self) -> None:
        """Only connecting tells."""

    def _connected(self, connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET search_path TO {self._search_path}")
            cursor.execute(f"SET statement_timeout = {self._limits.statement_ms}")
            cursor.execute(f"SET lock_timeout = {self._limits.lock_ms}")
            cursor.execute(f"SET idle_in_transaction_session_timeout = {self._limits.idle_ms}")
        connection.commit()

    @contextmanager
    def writing(self) -> Generator[Connection]:
        with self.engine.begin() as connection:
            yield connection

    reading = writing

    @contextmanager
    def writing_apart(self) -> Generator[Connection]:
        with self._apart.begin() as connection:
            yield connection

    def has_changed(self) -> bool:
        return False

    def listen(self, loop: asyncio.AbstractEventLoop, poke: Callable[[], None]) -> None:
        def on_notify() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(poke)

        self._stopping.clear()
        self._listener = threading.Thread(target=self._listen, args=(on_notify,), name="rota-listen", daemon=True)
        self._listener.start()

    def _listen(self, on_notify: Callable[[], None]) -> None:
        """Runs on a thread of its own; when the connection breaks it makes another. The tick covers the gap."""
        while not self._stopping.is_set():
            try:
                self._listen_once(on_notify)
            except Exception:
                # Whatever broke it, the writers meet the same trouble and report it; here only patience helps.
                self._stopping.wait(1.0)

    def _listen_once(self, on_notify: Callable[[], None]) -> None:
        import psycopg

        conninfo = self._url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(conninfo, autocommit=True, connect_timeout=self._connect_seconds()) as connection:
            connection.execute(f"LISTEN {quoted(self._channel)}".encode())
            while not self._stopping.is_set():
                for _ in connection.notifies(timeout=LISTEN_SLICE, stop_after=1):
                    on_notify()

    def close(self) -> None:
        self._stopping.set()
        if self._listener is not None:
            # The listener looks up when it is poked; if the server is away, it looks up by itself soon.
            with suppress(SQLAlchemyError), self.engine.begin() as connection:
                self.dialect.poke(connection)
            self._listener.join(timeout=2 * LISTEN_SLICE)
        self.engine.dispose()
        self._apart.dispose()


def _leave_wrong_server(context: ExceptionContext) -> None:
    """After a fail-over an old connection leads to the standby for ever; a new one finds whoever writes now."""
    if is_wrong_server(context.original_exception):
        context.is_disconnect = True
