"""The limit beside the figures of the SQL stores: the same rows in bare transactions of the drivers, no Rota between.

A run is what the store does for one: a group of due tasks is read and marked as running in one transaction; then it is
read again by its keys, marked as completed, and its run records are written, in a second one. The tables and their
indexes are Rota's own, which opening a store makes.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from importlib import import_module
from typing import Any

from rota.stores.sql import SqlStore

__all__ = ["bare_postgres", "bare_sqlite"]

GROUP = 200
_MAKE = "INSERT INTO scheduled_tasks (task_type, key, status, scheduled_at, created_at, updated_at, user_id)"
_DUE = (
    "SELECT key, user_id, payload, version, attempt FROM scheduled_tasks WHERE task_type = 'bare' AND priority = 5"
    " AND status = 'pending' AND parked = 0 AND scheduled_at <= {now} ORDER BY scheduled_at, key LIMIT {group}"
)
_CLAIM = (
    "UPDATE scheduled_tasks SET status = 'running', token = {one}, lease_until = {one}, instance = 'bare', attempt = 1,"
    " claim_id = 'bare', claimed_at = {one}, last_claimed_at = {one} WHERE task_type = 'bare' AND key = {one}"
)
_END = (
    "UPDATE scheduled_tasks SET status = 'completed', token = 0, lease_until = NULL, instance = NULL, claim_id = NULL,"
    " last_token = {one}, last_outcome = 'complete', finished_at = {one}, purge_at = {one}, last_exec_at = {one}"
    " WHERE task_type = 'bare' AND key = {one}"
)
_LOG = (
    "INSERT INTO task_run_logs (task_type, key, status, started_at, user_id, trigger_mode, fires, duration_ms, attempt,"
    " token) VALUES ('bare', {one}, 'success', {one}, {one}, 'user_activity', 1, 1, 1, {one})"
)


def bare_sqlite(path: str, tasks: int) -> float:
    """Runs a second on a new SQLite file, with synchronous=FULL."""
    asyncio.run(_make_tables(f"sqlite:///{path}"))
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("synchronous = FULL", "cache_size = -65536", "wal_autocheckpoint = 4000"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute("BEGIN IMMEDIATE")
    new = [("bare", f"u{number:07}", "pending", 1, 1, 1, f"u{number:07}") for number in range(tasks)]
    connection.executemany(f"{_MAKE} VALUES (?, ?, ?, ?, ?, ?, ?)", new)
    connection.execute("COMMIT")
    again = f"SELECT key, user_id, token FROM scheduled_tasks WHERE task_type = 'bare' AND key IN ({_KEYS_OF_SQLITE})"
    started, token = time.perf_counter(), 0
    while due := _begun(connection).execute(_DUE.format(now=2, group=GROUP)).fetchall():
        rows = [(token + at, 3, 3, 3, row[0]) for at, row in enumerate(due)]
        connection.executemany(_CLAIM.format(one="?"), rows)
        connection.execute("COMMIT")
        held = _begun(connection).execute(again, [json.dumps([row[0] for row in due])]).fetchall()
        connection.executemany(_END.format(one="?"), [(row[2], 4, 5, 4, row[0]) for row in held])
        connection.executemany(_LOG.format(one="?"), [(row[0], 3, row[1], row[2]) for row in held])
        connection.execute("COMMIT")
        token += len(due)
    seconds = time.perf_counter() - started
    connection.execute("COMMIT")
    connection.close()
    return tasks / seconds


_KEYS_OF_SQLITE = "SELECT value FROM json_each(?)"


def _begun(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute("BEGIN IMMEDIATE")
    return connection


def bare_postgres(url: str, tasks: int) -> float:
    """Runs a second on an empty PostgreSQL database; a group's statements travel together."""
    psycopg: Any = import_module("psycopg")
    asyncio.run(_make_tables(url))
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        new = [("bare", f"u{number:07}", "pending", 1, 1, 1, f"u{number:07}") for number in range(tasks)]
        cursor.executemany(f"{_MAKE} VALUES (%s, %s, %s, %s, %s, %s, %s)", new)
        again = "SELECT key, user_id, token FROM scheduled_tasks WHERE task_type = 'bare' AND key = ANY(%s) FOR UPDATE"
        started, token, done = time.perf_counter(), 0, 0
        while done < tasks:
            with connection.transaction():
                due = cursor.execute(f"{_DUE.format(now=2, group=GROUP)} FOR UPDATE SKIP LOCKED").fetchall()
                rows = [(token + at, 3, 3, 3, row[0]) for at, row in enumerate(due)]
                cursor.executemany(_CLAIM.format(one="%s"), rows)
            with connection.transaction():
                held = cursor.execute(again, [[row[0] for row in due]]).fetchall()
                cursor.executemany(_END.format(one="%s"), [(row[2], 4, 5, 4, row[0]) for row in held])
                cursor.executemany(_LOG.format(one="%s"), [(row[0], 3, row[1], row[2]) for row in held])
            token += len(due)
            done += len(due)
        return tasks / (time.perf_counter() - started)


async def _make_tables(url: str) -> None:
    store = SqlStore(url)
    await store.open()
    await store.close()
