"""Each row of the table of driver errors, and the real errors of both databases beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError, ProgrammingError, ResourceClosedError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from tests.opening import opened

from rota.database import Database
from rota.database.backends.sqlite import SqliteBackend
from rota.database.driver_errors import KINDS, POSTGRES, SQLITE, Meaning, meaning_of
from rota.errors import StoreError, StoreUnavailable
from rota.testing.servers import PostgresServer

AWAY, CONFLICT, REFUSED = Meaning.AWAY, Meaning.CONFLICT, Meaning.REFUSED


def wrapped(error: Exception) -> DBAPIError:
    """As SQLAlchemy hands it on."""
    return DBAPIError("SELECT 1", {}, error)


# --- PostgreSQL, by SQLSTATE ---

BY_SQLSTATE = {
    "08000": AWAY,  # connection exception
    "08006": AWAY,  # connection failure
    "08P01": AWAY,  # protocol violation, as poolers report their own trouble
    "22001": REFUSED,  # string too long
    "22021": REFUSED,  # not in repertoire: a NUL
    "23502": REFUSED,  # NULL
    "23505": REFUSED,  # unique
    "25006": AWAY,  # read-only transaction
    "25P02": REFUSED,  # in a failed transaction
    "25P03": AWAY,  # idle in transaction
    "25P04": AWAY,  # transaction timeout
    "28P01": AWAY,  # wrong password
    "3D000": AWAY,  # no such database
    "40001": CONFLICT,  # serialisation failure
    "40002": REFUSED,  # constraint at the end of the transaction
    "40003": AWAY,  # completion unknown
    "40P01": CONFLICT,  # deadlock
    "42501": REFUSED,  # privilege
    "42601": REFUSED,  # syntax
    "42P01": REFUSED,  # no such table
    "53100": AWAY,  # disk full
    "53200": AWAY,  # out of memory
    "53300": AWAY,  # too many connections
    "54000": REFUSED,  # too long for an index
    "55P03": CONFLICT,  # lock not available
    "57014": AWAY,  # cancelled, or the statement's time is over
    "57P01": AWAY,  # ended by an operator
    "57P02": AWAY,  # another process of the server has crashed
    "57P03": AWAY,  # starting up, or shutting down
    "57P04": AWAY,  # the database is gone
    "57P05": AWAY,  # idle session
    "58030": AWAY,  # I/O error
    "XX000": AWAY,  # internal error
}


def of_sqlstate(sqlstate: str) -> psycopg.Error:
    try:
        return errors.lookup(sqlstate)("said by the server")
    except KeyError:
        # A state that this version of the driver does not know by name.
        error = psycopg.InternalError("said by the server")
        error.sqlstate = sqlstate
        return error


@pytest.mark.parametrize(("sqlstate", "meaning"), BY_SQLSTATE.items())
def test_what_postgres_means_by_a_sqlstate(sqlstate: str, meaning: Meaning) -> None:
    assert meaning_of(wrapped(of_sqlstate(sqlstate))) is meaning
    assert meaning_of(of_sqlstate(sqlstate)) is meaning


def test_every_row_for_postgres_is_tried() -> None:
    tried = {max((row for row in POSTGRES if state.startswith(row)), key=len) for state in BY_SQLSTATE}
    assert tried == set(POSTGRES)


# --- SQLite, by result code ---

BY_CODE = {
    "SQLITE_ERROR": REFUSED,
    "SQLITE_INTERNAL": AWAY,
    "SQLITE_PERM": AWAY,
    "SQLITE_ABORT": AWAY,
    "SQLITE_BUSY": AWAY,
    "SQLITE_BUSY_SNAPSHOT": AWAY,
    "SQLITE_LOCKED": AWAY,
    "SQLITE_NOMEM": AWAY,
    "SQLITE_READONLY": AWAY,
    "SQLITE_READONLY_DBMOVED": AWAY,
    "SQLITE_INTERRUPT": AWAY,
    "SQLITE_IOERR": AWAY,
    "SQLITE_IOERR_FSYNC": AWAY,
    "SQLITE_CORRUPT": REFUSED,
    "SQLITE_FULL": AWAY,
    "SQLITE_CANTOPEN": AWAY,
    "SQLITE_PROTOCOL": AWAY,
    "SQLITE_SCHEMA": CONFLICT,
    "SQLITE_TOOBIG": REFUSED,
    "SQLITE_CONSTRAINT": REFUSED,
    "SQLITE_CONSTRAINT_UNIQUE": REFUSED,
    "SQLITE_MISMATCH": REFUSED,
    "SQLITE_MISUSE": AWAY,
    "SQLITE_AUTH": REFUSED,
    "SQLITE_NOTADB": REFUSED,
}


@pytest.mark.parametrize(("name", "meaning"), BY_CODE.items())
def test_what_sqlite_means_by_a_code(name: str, meaning: Meaning) -> None:
    error = sqlite3.DatabaseError("said by SQLite")
    error.sqlite_errorcode = getattr(sqlite3, name)
    assert meaning_of(wrapped(error)) is meaning
    assert meaning_of(error) is meaning


def test_every_row_for_sqlite_is_tried() -> None:
    assert {getattr(sqlite3, name) & 0xFF for name in BY_CODE} == set(SQLITE)


# --- the drivers' own words ---


@pytest.mark.parametrize("driver", [psycopg, sqlite3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_is_broken(driver: Any, kind: str) -> None:
    assert meaning_of(wrapped(getattr(driver, kind)("the connection is closed"))) is AWAY


@pytest.mark.parametrize("driver", [psycopg, sqlite3])
@pytest.mark.parametrize("kind", ["ProgrammingError", "DataError", "IntegrityError", "NotSupportedError"])
def test_a_call_that_the_driver_refuses(driver: Any, kind: str) -> None:
    assert meaning_of(wrapped(getattr(driver, kind)("no"))) is REFUSED


def test_a_connection_that_was_given_up_is_away_whatever_was_said_last() -> None:
    broken = ProgrammingError("SELECT 1", {}, psycopg.ProgrammingError("no"), connection_invalidated=True)
    assert meaning_of(broken) is AWAY


@pytest.mark.parametrize("error", [PoolTimeout("QueuePool limit"), ResourceClosedError("This Connection is closed")])
def test_no_connection_is_to_be_had(error: Exception) -> None:
    assert meaning_of(error) is AWAY


# --- the real ones, as whoever calls the database sees them ---


def execute(*statements: str) -> Callable[[Connection], None]:
    def run(connection: Connection) -> None:
        for statement in statements:
            connection.execute(text(statement))

    return run


async def error_of(database: Database, *statements: str) -> type[StoreError]:
    with pytest.raises(StoreError) as raised:
        await database.write(execute(*statements))
    return type(raised.value)


LONG = "string_agg(md5(n::text), ''), '' FROM generate_series(1, 999) n"
"""More than an index takes, and nothing that can be made short."""

REAL_ON_POSTGRES = {
    "read-only": (("SET TRANSACTION READ ONLY", "DELETE FROM meta"), StoreUnavailable),
    "statement timeout": (("SET LOCAL statement_timeout = 1", "SELECT pg_sleep(60)"), StoreUnavailable),
    "terminated": (("SELECT pg_terminate_backend(pg_backend_pid())",), StoreUnavailable),
    "cancelled": (("SELECT pg_cancel_backend(pg_backend_pid())", "SELECT pg_sleep(60)"), StoreUnavailable),
    "constraint": (("INSERT INTO meta VALUES ('a', NULL)",), StoreError),
    "syntax": (("SELEKT",), StoreError),
    "data": (("SELECT 1/0",), StoreError),
    "too long": ((f"INSERT INTO meta SELECT {LONG}",), StoreError),
}


@pytest.mark.parametrize("what", REAL_ON_POSTGRES)
async def test_what_a_real_postgres_says(what: str, postgres_url: str) -> None:
    statements, expected = REAL_ON_POSTGRES[what]
    async with opened(Database(postgres_url)) as database:
        assert await error_of(database, *statements) is expected
        assert await database.now() > 0, "and the next call finds a connection that works"


async def test_a_postgres_to_which_nobody_may_connect(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE closed CONNECTION LIMIT 0")
        connection.execute("CREATE ROLE visitor LOGIN")
        try:
            url = postgres.url.replace("/postgres?", "/closed?").replace("postgres:@", "visitor:@")
            with pytest.raises(StoreUnavailable):
                await Database(url).open()
        finally:
            connection.execute("DROP DATABASE closed")
            connection.execute("DROP ROLE visitor")


async def test_a_pool_that_is_exhausted(postgres_url: str) -> None:
    database = Database(postgres_url, call_timeout=2.5)
    await database.open()
    held = [database.engine.connect() for _ in range(database.backend.writers + 2)]
    with pytest.raises(StoreUnavailable):
        await database.now()
    for connection in held:
        connection.close()
    assert await database.now() > 0
    await database.close()


REAL_ON_SQLITE = {
    "full": (("PRAGMA max_page_count = 1", "CREATE TABLE big AS SELECT hex(randomblob(100000))"), StoreUnavailable),
    "read-only": (("PRAGMA query_only = ON", "DELETE FROM meta"), StoreUnavailable),
    "constraint": (("INSERT INTO meta VALUES ('a', NULL)",), StoreError),
    "syntax": (("SELEKT",), StoreError),
    "no such table": (("SELECT * FROM nowhere",), StoreError),
}


@pytest.mark.parametrize("what", REAL_ON_SQLITE)
async def test_what_a_real_sqlite_says(what: str, sqlite_url: str) -> None:
    statements, expected = REAL_ON_SQLITE[what]
    async with opened(Database(sqlite_url)) as database:
        assert await error_of(database, *statements) is expected


async def test_a_file_that_another_process_writes_to(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rota.db"
    database = Database(url, call_timeout=0.5)
    await database.open()
    other = create_engine(url)
    with other.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable):
            await database.write(execute("DELETE FROM meta"))
    other.dispose()
    await database.close()


async def test_looking_for_changes_says_so_as_well(sqlite_url: str) -> None:
    """That look goes past SQLAlchemy: what the driver raises must not come through as it is."""
    database = Database(sqlite_url)
    await database.open()
    assert isinstance(database.backend, SqliteBackend)
    raw = database.engine.raw_connection()
    assert isinstance(raw.dbapi_connection, sqlite3.Connection)
    raw.dbapi_connection.close()
    with await database.changes.subscribe("anything"):
        assert database.changes.trouble is not None
        assert "cannot be used right now" in database.changes.trouble
