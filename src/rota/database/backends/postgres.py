"""PostgreSQL: many writers, LISTEN and NOTIFY."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, NamedTuple

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Select,
    Table,
    bindparam,
    column,
    create_engine,
    event,
    func,
    literal_column,
    select,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool
from sqlalchemy.types import Text

from rota.clock import SECOND, Clock, Instant, Millis, SystemClock
from rota.core import token
from rota.database.backend import READ_FIRST, AnySelect, Backend
from rota.database.driver_errors import is_wrong_server
from rota.database.later import LateAnswer, read_later, write_later
from rota.database.names import path_of, quoted, without_schema
from rota.errors import InvalidConfig

__all__ = ["PostgresBackend", "PostgresDialect", "PostgresLimits"]

_CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_TOLD = "rota clock"
"""Where a connection of ours keeps what the server's clock said when its transaction began, and when that was, by the
clock of this process."""
_FIRST = "rota_first"
"""The option of connections that read something when they begin a transaction: the query."""
_IS_READING = "rota_is_reading"
"""The option of connections that only read, each statement for itself."""
# As they come: a set that a function returns is gone through in its order.
_EACH_NAME = "hashtextextended(name, 0)) FROM unnest(CAST(:names AS text[])) AS name"
_LOCK_NAMES = text(f"SELECT pg_advisory_xact_lock({_EACH_NAME}")
_TRY_NAMES = text(f"SELECT pg_try_advisory_xact_lock({_EACH_NAME}")
_TOKENS = text("SELECT nextval('task_token_seq') FROM generate_series(1, :count)")
_NOTIFY = text("SELECT pg_notify(:channel, topic) FROM unnest(CAST(:topics AS text[])) AS topic")


class PostgresDialect:
    """Many writers: rows are locked in (type, key) order, claims pass over what others hold."""

    count_shards = 16

    def __init__(self, schema: str, channel: str, clock: Clock | None = None) -> None:
        # Locks and channels belong to a database, schemas to us: two of them must neither wake nor hold up each other.
        self._schema = schema
        self._channel = channel
        self._clock = clock
        self._elapsed = SystemClock().monotonic

    def now(self, connection: Connection) -> Instant:
        """The server's clock. A transaction of ours was told it when it began, and counts on from there by itself."""
        if self._clock is not None:
            return self._clock.now()
        told: tuple[Instant, float] | None = connection.info.get(_TOLD)
        if told is None:
            return int(connection.execute(text(_CLOCK)).scalar_one())
        return told[0] + int(SECOND * (self._elapsed() - told[1]))

    def begin(self, connection: Connection) -> None:
        """Begin a transaction on a connection of ours, and be told what time it is, in one go."""
        options = connection.get_execution_options()
        if _IS_READING in options or options.get("isolation_level") == "AUTOCOMMIT":
            return
        raw: Any = connection.connection.dbapi_connection
        first: str | None = options.get(_FIRST)
        with raw.cursor() as cursor:
            cursor.execute(f"BEGIN; {_CLOCK}; {first or ''}", prepare=False)
            cursor.nextset()
            connection.info[_TOLD] = cursor.fetchone()[0], self._elapsed()
            if first is not None:
                cursor.nextset()
                connection.info[READ_FIRST] = cursor.fetchall()

    @staticmethod
    def among(column: ColumnElement[Any]) -> ColumnElement[bool]:
        return column == func.any(bindparam("keys", type_=ARRAY(Text)))

    @staticmethod
    def keys(keys: Collection[str]) -> object:
        return list(keys)

    @staticmethod
    def by_keys(query: Select[Any], key: ColumnElement[str]) -> Select[Any]:
        # Of a table that nobody has analysed yet the server takes a type for rare, and reads all of its rows to find
        # two hundred keys. The limit keeps it from turning this into a join of its own liking.
        keys = func.unnest(bindparam("keys", type_=ARRAY(Text))).table_valued(column("key", Text), name="wanted")
        wanted = keys.render_derived()
        row = query.where(key == wanted.c.key).limit(literal_column("1")).lateral("row")
        return select(*row.c).select_from(wanted.join(row, true()))

    @staticmethod
    def locked(query: AnySelect, *, pass_over: bool = False, of: Table | None = None) -> AnySelect:
        return query.with_for_update(skip_locked=pass_over, of=of)

    @staticmethod
    def in_one_row(query: Select[Any]) -> Select[Any]:
        return query

    def lock_names(self, connection: Connection, names: Sequence[str], *, wait: bool = True) -> Sequence[str]:
        whole = {"names": [f"{self._schema}:{name}" for name in names]}
        if wait:
            write_later(connection, _LOCK_NAMES, whole)
            return names
        tried = read_later(connection, _TRY_NAMES, whole).rows()
        return [name for name, (is_held,) in zip(names, tried, strict=True) if is_held]

    def tokens(self, connection: Connection, count: int, claim_id: str, now: Instant, above: int) -> Iterator[int]:
        # Many claim at once, and none waits for another's transaction to end: the sequence says where in the room of
        # its millisecond each token lies. It cannot be set to a time: two who do so at once would set it back.
        numbers = read_later(connection, _TOKENS, {"count": count})
        return (token.floor_at(now) + 1 + number % token.ROOM for number in _numbers(numbers))

    def tell(self, connection: Connection, topics: Sequence[str]) -> None:
        write_later(connection, _NOTIFY, {"channel": self._channel, "topics": list(topics)})


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
    tells = True
    must_look = False

    def __init__(self, url: URL, clock: Clock | None, call_timeout: float) -> None:
        if find_spec("psycopg") is None:
            raise InvalidConfig("PostgreSQL needs a driver: pip install 'rota[postgres]'.")
        self.sends_together = _sends_together()
        self.name = url.render_as_string(hide_password=True)
        self._url = without_schema(url).set(drivername="postgresql+psycopg")
        path = path_of(url)
        self.schema = path[0]
        self._search_path = ", ".join(map(quoted, path))
        self._channel = f"rota_{self.schema}".encode()[:63].decode(errors="ignore")
        dialect = self.dialect = PostgresDialect(self.schema, self._channel, clock)
        self._begin = dialect.begin
        self._limits = PostgresLimits.of(call_timeout)
        self.engine = self._engine(pool_size=self.writers + 1, max_overflow=1)
        self._reading = self.engine.execution_options(**{_IS_READING: True})
        self._engines_reading_first: dict[str, Engine] = {}
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
            # A host that swallows packets is away, not slow: left to the system, connecting takes minutes. Transactions
            # begin as the dialect begins them, and who only reads needs none: the driver begins none by itself.
            connect_args={"connect_timeout": self._connect_seconds(), "autocommit": True},
        )
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "begin", self._begin)
        event.listen(engine, "checkin", _forget_transaction)
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

    @contextmanager
    def writing(self, first: str | None = None) -> Generator[Connection]:
        engine = self.engine if first is None else self._reading_first(first)
        with engine.begin() as connection:
            yield connection

    def _reading_first(self, query: str) -> Engine:
        """The engine, for transactions that begin with this query."""
        known = self._engines_reading_first.get(query)
        if known is None:
            known = self._engines_reading_first[query] = self.engine.execution_options(**{_FIRST: query})
        return known

    @contextmanager
    def reading(self) -> Generator[Connection]:
        # Each statement has a picture of its own, in a transaction too: without one, two answers less are waited for.
        with self._reading.connect() as connection:
            yield connection

    @contextmanager
    def writing_apart(self) -> Generator[Connection]:
        with self._apart.begin() as connection:
            yield connection

    @property
    def engines(self) -> Sequence[Engine]:
        return [self.engine, self._apart]

    def version(self) -> int:
        return 0

    def number_of(self, connection: Any) -> int | None:
        return connection.info.backend_pid

    def listen(self, told: Callable[[str, int], None], heard: Callable[[str | None], None]) -> None:
        self._stopping.clear()
        self._listener = threading.Thread(target=self._listen, args=(told, heard), name="rota-listen", daemon=True)
        self._listener.start()

    def _listen(self, told: Callable[[str, int], None], heard: Callable[[str | None], None]) -> None:
        """Runs on a thread of its own; when the connection breaks it makes another. The tick covers the gap."""
        while not self._stopping.is_set():
            try:
                self._listen_once(told, heard)
            except Exception as error:
                # Whatever broke it, only patience helps here.
                heard(str(error).strip() or type(error).__name__)
                self._stopping.wait(1.0)

    def _listen_once(self, told: Callable[[str, int], None], heard: Callable[[str | None], None]) -> None:
        import psycopg

        conninfo = self._url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(conninfo, autocommit=True, connect_timeout=self._connect_seconds()) as connection:
            connection.execute(f"LISTEN {quoted(self._channel)}".encode())
            heard(None)
            while not self._stopping.is_set():
                for notice in connection.notifies(timeout=LISTEN_SLICE, stop_after=1):
                    told(notice.payload, notice.pid)

    def close(self) -> None:
        self._stopping.set()
        if self._listener is not None:
            # The listener looks up when it is poked; if the server is away, it looks up by itself soon.
            with suppress(SQLAlchemyError), self.engine.begin() as connection:
                self.dialect.tell(connection, [""])
            self._listener.join(timeout=2 * LISTEN_SLICE)
        self.engine.dispose()
        self._apart.dispose()


def _forget_transaction(_connection: Any, record: Any) -> None:
    """Whoever has the connection next has a time of its own, and reads what it needs."""
    record.info.pop(_TOLD, None)
    record.info.pop(READ_FIRST, None)


def _numbers(answer: LateAnswer) -> Iterator[int]:
    for (number,) in answer.rows():
        yield number


def _sends_together() -> bool:
    """A driver that was built with an old library of PostgreSQL's does not."""
    from psycopg import Pipeline

    return Pipeline.is_supported()


def _leave_wrong_server(context: ExceptionContext) -> None:
    """After a fail-over an old connection leads to the standby for ever; a new one finds whoever writes now."""
    if is_wrong_server(context.original_exception):
        context.is_disconnect = True
