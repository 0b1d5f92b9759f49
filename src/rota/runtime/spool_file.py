"""The spool's file: touches that wait on this host's disk, one row per identity.

Plain SQLite on a thread of its own. WAL with synchronous=FULL: what was accepted survives a kill and a power cut. The
file may be shared by the processes of a host, and by apps on different stores: a row belongs to the store it is for.
It is made when the first touch must wait.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from rota.clock import Instant
from rota.core.task import Activity, Identity
from rota.errors import InvalidConfig, StoreUnavailable
from rota.forking import ClosedForForks, refuse_inherited
from rota.group_commit import GroupCommit
from rota.private_files import prepare_sqlite

__all__ = ["MAX_ROWS", "SpoolFile", "SpooledTouch"]

T = TypeVar("T")

MAX_ROWS: Final = 1_000_000
"""Identities that may wait: some 150 MB of disk."""
VERSION: Final = 1
DISK_SECONDS: Final = 5.0

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS touches (
    store TEXT NOT NULL,
    task_type TEXT NOT NULL,
    key TEXT NOT NULL,
    user_id TEXT NOT NULL,
    device_id TEXT,
    agent_id TEXT,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (store, task_type, key)
) WITHOUT ROWID
"""
_AGAIN: Final = (
    "UPDATE touches SET last_at = max(last_at, ?), count = count + 1 WHERE store = ? AND task_type = ? AND key = ?"
)
_INSERT: Final = "INSERT INTO touches VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)"
_PAGE: Final = (
    "SELECT task_type, key, user_id, device_id, agent_id, first_at, last_at, count FROM touches"
    " WHERE store = ? AND (task_type, key) > (?, ?) ORDER BY task_type, key LIMIT ?"
)
# A row that was touched again meanwhile has another count, and stays.
_REMOVE: Final = "DELETE FROM touches WHERE store = ? AND task_type = ? AND key = ? AND count = ? AND last_at = ?"
_COUNT: Final = "SELECT count(*) FROM touches WHERE store = ?"
_ANY: Final = "SELECT 1 FROM touches WHERE store = ? LIMIT 1"


class SpooledTouch(NamedTuple):
    """What an identity's row says; the times are this host's."""

    activity: Activity
    first_at: Instant
    last_at: Instant
    times: int


class SpoolFile:
    """The rows of one store in one file. Everything but `rows` is awaited; trouble is `StoreUnavailable`."""

    def __init__(self, path: Path, store: str, *, max_rows: int = MAX_ROWS) -> None:
        self.path = path
        self.rows = 0
        """How many identities wait, as far as this process knows: others may share the file."""
        self._store = store
        self._max_rows = max_rows
        self._connection: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._turn = threading.Lock()
        self._around_forks = ClosedForForks(path, self._disconnect, self._turn)
        self._puts: GroupCommit[tuple[Activity, Instant], None] = GroupCommit(
            self._put_group, lambda _: 200, patience=DISK_SECONDS
        )

    def check(self) -> None:
        """Refuse a path that can never be written."""
        if not self.path.absolute().parent.is_dir():
            raise InvalidConfig(
                f"spool is {str(self.path)!r}, but the folder {self.path.absolute().parent} does not exist."
                " Create it, or set 'spool: off'."
            )

    async def put(self, activity: Activity, at: Instant) -> None:
        """Keep a touch. When this returns it is on the disk."""
        await self._puts.submit([(activity, at)])

    async def page(self, after: Identity | None, limit: int) -> list[SpooledTouch]:
        """The first rows behind an identity, by type and key."""
        behind = ("", "") if after is None else after
        rows = await self._run(lambda disk: disk.execute(_PAGE, (self._store, *behind, limit)).fetchall())
        return [_touch(row) for row in rows]

    async def remove(self, touches: Sequence[SpooledTouch]) -> int:
        """Remove rows that were dealt with, but none that was touched again meanwhile; how many are gone."""

        def run(disk: sqlite3.Connection) -> int:
            with _transaction(disk):
                keys = [(self._store, *row.activity.identity, row.times, row.last_at) for row in touches]
                removed = sum(disk.execute(_REMOVE, key).rowcount for key in keys)
            self.rows -= removed
            return removed

        return await self._run(run)

    async def is_empty(self) -> bool:
        """Whether nothing waits. A file that does not exist is not made by asking."""
        if self._connection is None and not self.path.exists():
            return True
        return await self._run(lambda disk: disk.execute(_ANY, (self._store,)).fetchone() is None)

    async def count(self) -> int:
        """How many identities wait, counted: other processes may have put some here."""

        def run(disk: sqlite3.Connection) -> int:
            self.rows = int(disk.execute(_COUNT, (self._store,)).fetchone()[0])
            return self.rows

        return await self._run(run)

    async def close(self) -> None:
        """Let go of the file; the next call opens it again."""
        await self._puts.drain()
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.wrap_future(thread.submit(self._close))
            thread.shutdown()

    # --- on the thread ---

    async def _run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="rota-spool")
        return await asyncio.wrap_future(self._thread.submit(self._guarded, function))

    def _guarded(self, function: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._turn:
                return function(self._connected())
        except (sqlite3.Error, OSError) as error:
            raise StoreUnavailable(
                f"The spool {self.path} cannot be used: {error}. Check the disk and who may write there, or set"
                " another `spool`."
            ) from error

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect()
            self.rows = int(self._connection.execute(_COUNT, (self._store,)).fetchone()[0])
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        refuse_inherited(self.path)
        prepare_sqlite(self.path)
        # Whoever forks closes it, on a thread of its own.
        disk = sqlite3.connect(self.path, timeout=2.0, isolation_level=None, check_same_thread=False)
        try:
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "mmap_size = 0"):
                disk.execute(f"PRAGMA {pragma}").fetchall()
            found = int(disk.execute("PRAGMA user_version").fetchone()[0])
            if found > VERSION:
                raise StoreUnavailable(
                    f"The spool {self.path} was written by a newer version of Rota ({found}; this one knows {VERSION})."
                    " Upgrade, or set another `spool`."
                )
            with _transaction(disk):
                disk.execute(_SCHEMA)
                disk.execute(f"PRAGMA user_version = {VERSION}")
        except BaseException:
            disk.close()
            raise
        return disk

    def _close(self) -> None:
        with self._turn:
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _put_group(self, items: list[tuple[Activity, Instant]]) -> list[Exception | None]:
        return await self._run(lambda disk: self._put_all(disk, items))

    def _put_all(self, disk: sqlite3.Connection, items: list[tuple[Activity, Instant]]) -> list[Exception | None]:
        rows = self.rows
        answers: list[Exception | None] = []
        with _transaction(disk):
            for activity, at in items:
                is_known = disk.execute(_AGAIN, (at, self._store, *activity.identity)).rowcount
                if not is_known and rows >= self._max_rows:
                    answers.append(self._full())
                    continue
                if not is_known:
                    ids = (activity.user_id, activity.device_id, activity.agent_id)
                    disk.execute(_INSERT, (self._store, *activity.identity, *ids, at, at))
                    rows += 1
                answers.append(None)
        self.rows = rows
        return answers

    def _full(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"The spool {self.path} is full: {self._max_rows:,} users wait, which is its limit. Bring the store back."
        )


@contextmanager
def _transaction(disk: sqlite3.Connection) -> Generator[None]:
    disk.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        disk.execute("ROLLBACK")
        raise
    disk.execute("COMMIT")


def _touch(row: tuple[str, str, str, str | None, str | None, int, int, int]) -> SpooledTouch:
    task_type, key, user_id, device_id, agent_id, first_at, last_at, times = row
    activity = Activity(task_type=task_type, key=key, user_id=user_id, device_id=device_id, agent_id=agent_id)
    return SpooledTouch(activity, first_at, last_at, times)
