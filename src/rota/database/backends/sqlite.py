"""SQLite: one file, one writer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import SQLITE_BUSY, OperationalError
from typing import Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Select,
    Table,
    bindparam,
    create_engine,
    event,
    func,
    select,
    text,
)
from sqlalchemy.pool import StaticPool

from rota.clock import Clock, Instant, SystemClock
from rota.core import token
from rota.database.backend import AnySelect, Backend
from rota.database.backends.turns import Line
from rota.errors import InvalidConfig
from rota.forking import ClosedForForks, refuse_inherited
from rota.private_files import prepare_sqlite

__all__ = ["SqliteBackend", "SqliteDialect"]

# `last_before` of core/token.py, in one statement.
_NEXT_TOKENS = text(
    "UPDATE sequences SET value = max(CASE WHEN value >= :floor THEN value ELSE :floor + :spread END, :above) + :count"
    " WHERE name = 'token' RETURNING value"
)


class SqliteDialect:
    """One writer: whatever a transaction reads is its own until it ends."""

    count_shards = 1

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self, connection: Connection) -> Instant:
        return self._clock.now()

    @staticmethod
    def among(column: ColumnElement[Any]) -> ColumnElement[bool]:
        values = func.json_each(bindparam("keys")).table_valued("value")
        return column.in_(select(values.c.value))

    @staticmethod
    def keys(keys: Collection[str]) -> object:
        return json.dumps(list(keys))

    @classmethod
    def by_keys(cls, query: Select[Any], key: ColumnElement[str]) -> Select[Any]:
        return query.where(cls.among(key)).order_by(key)

    @staticmethod
    def locked(query: AnySelect, *, pass_over: bool = False, of: Table | None = None) -> AnySelect:
        return query

    @staticmethod
    def in_one_row(query: Select[Any]) -> Select[Any]:
        """The driver gives up the interpreter's lock at each row, and may wait long for it: there is but one."""
        rows = query.subquery("found")
        return select(func.json_group_array(func.json_array(*rows.c)))

    def lock_names(self, connection: Connection, names: Sequence[str], *, wait: bool = True) -> Sequence[str]:
        """BEGIN IMMEDIATE has locked everything already."""
        return names

    def tokens(self, connection: Connection, count: int, claim_id: str, now: Instant, above: int) -> Iterator[int]:
        given = {"floor": token.floor_at(now), "spread": token.spread_of(claim_id), "above": above, "count": count}
        last = connection.execute(_NEXT_TOKENS, given).scalar_one()
        return iter(range(last - count + 1, last + 1))

    def tell(self, connection: Connection, topics: Sequence[str]) -> None:
        """Other processes look at PRAGMA data_version."""


_SYNCHRONOUS = ("FULL", "NORMAL", "OFF", "EXTRA")


class SqliteBackend(Backend):
    """One file, one writer."""

    writers = 1
    apart = 0
    in_flight = 1
    # Each commit waits for the disk, and for nobody else: the more share it, the better.
    group_size = 500
    tells = False

    def __init__(self, url: URL, clock: Clock | None, call_timeout: float) -> None:
        path = url.database or ""
        self.is_in_memory = path in ("", ":memory:")
        self.must_look = not self.is_in_memory
        self.name = url.render_as_string()
        self._synchronous = str(url.query.get("synchronous", "FULL")).upper()
        if self._synchronous not in _SYNCHRONOUS:
            raise InvalidConfig(
                f"synchronous={self._synchronous} in {self.name} is none of: {', '.join(_SYNCHRONOUS)}."
            )
        self._path = Path(path)
        self._wal = Path(f"{path}-wal")
        self._lock_seconds = 0.9 * call_timeout
        self.dialect = SqliteDialect(clock or SystemClock())
        plain = url.set(query={})
        self._line = Line(self._wal)
        self.engine = self._engine(plain, self._begin_writing, "journal_mode = WAL")
        # What is in memory belongs to one connection, which then reads too; SQLite lets one thread at a time use it.
        self._reader = self.engine if self.is_in_memory else self._engine(plain, self._begin_reading)
        self._to_write = threading.Lock()
        self._to_read = self._to_write if self.is_in_memory else threading.Lock()
        self._connections = 0
        # What is in memory would be lost by closing it.
        turns = (self._to_write, self._to_read)
        self._around_forks = None if self.is_in_memory else ClosedForForks(self._path, self.close, *turns)

    def _engine(self, url: URL, begin: Callable[[Connection], None], *pragmas: str) -> Engine:
        given = {"check_same_thread": False, "timeout": self._lock_seconds}
        engine = create_engine(url, poolclass=StaticPool, connect_args=given)

        @event.listens_for(engine, "connect")
        def _connected(connection: Any, _record: Any) -> None:
            # The driver must not open transactions of its own: ours begin with a lock, or not at all.
            connection.isolation_level = None
            for pragma in (*pragmas, *self._pragmas()):
                connection.execute(f"PRAGMA {pragma}").fetchall()
            if pragmas and not self.is_in_memory:
                # Whoever writes has its own way to wait, and waits for nothing once it has the file.
                connection.execute("PRAGMA busy_timeout = 0").fetchall()

        event.listen(engine, "begin", begin)
        return engine

    def _begin_reading(self, connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    def _begin_writing(self, connection: Connection) -> None:
        """With the lock, when it is our turn; SQLite's own way of waiting for it would hardly ever find it free."""
        raw: Any = connection.connection.dbapi_connection
        if self.is_in_memory:
            raw.execute("BEGIN IMMEDIATE")
            return
        with self._line.at_its_head():
            if not self._line.ask(lambda: _begins(raw), self._lock_seconds):
                raw.execute("BEGIN IMMEDIATE")

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
    def writing(self, first: str | None = None) -> Generator[Connection]:
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

    def mark(self) -> object:
        try:
            seen = self._wal.stat()
        except OSError:
            return None  # there is none before the first write, and after the last one has closed it
        return seen.st_mtime_ns, seen.st_size, seen.st_ino

    def version(self) -> int:
        # Asked on the writer's own connection, so that its own commits do not count.
        with self._to_write:
            raw = self.engine.raw_connection()
            try:
                version: int = raw.cursor().execute("PRAGMA data_version").fetchone()[0]
            finally:
                raw.close()
            return self._connections << 32 | version

    def listen(self, told: Callable[[str, int], None], heard: Callable[[str | None], None]) -> None:
        """Nobody tells: `version` has to be looked at."""

    def close(self) -> None:
        self.engine.dispose()
        self._reader.dispose()
        self._line.close()
        # The next connection counts from another number, and somebody may have written meanwhile: it has changed.
        self._connections += 1


def _begins(raw: Any) -> bool:
    """Whether nobody else writes: then we do."""
    try:
        raw.execute("BEGIN IMMEDIATE")
    except OperationalError as error:
        if error.sqlite_errorcode & 0xFF != SQLITE_BUSY:
            raise
        return False
    return True
