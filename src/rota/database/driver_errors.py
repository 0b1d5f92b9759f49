"""What the errors of the drivers mean: run it again, wait until the database is back, or do not ask that again.

The one place that knows. The kind of an exception says too little: to a driver a read-only server is an internal error
(it is away), and a statement that is too long an operational one (it will be as long the next time). PostgreSQL says
what it means by SQLSTATE, SQLite by its result code; where neither is given, the driver itself speaks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from sqlalchemy.exc import (
    DBAPIError,
    DisconnectionError,
    PendingRollbackError,
    ResourceClosedError,
    TimeoutError,  # noqa: A004 - SQLAlchemy's own, of its pool
)

__all__ = ["KINDS", "POSTGRES", "SQLITE", "Meaning", "is_wrong_server", "meaning_of"]


class Meaning(StrEnum):
    """What whoever asked should do."""

    CONFLICT = "conflict"
    """Another transaction was in the way: the same again."""
    AWAY = "away"
    """The database cannot do it now, whatever is asked: the same later."""
    REFUSED = "refused"
    """The database has understood, and will not do this, now or later."""


POSTGRES: Final[Mapping[str, Meaning]] = {
    "08": Meaning.AWAY,  # connection exceptions, also those that a pooler in between reports
    "22": Meaning.REFUSED,  # data
    "23": Meaning.REFUSED,  # constraints
    "25006": Meaning.AWAY,  # read-only: a standby, a fail-over that is under way, the guard of a full disk
    "25P02": Meaning.REFUSED,  # a statement after a failed one: the failed one has said why
    "25P03": Meaning.AWAY,  # idle in a transaction for too long: we were frozen
    "25P04": Meaning.AWAY,  # a transaction that took too long
    "28": Meaning.AWAY,  # nobody is let in: passwords and pg_hba.conf change while we run
    "3D": Meaning.AWAY,  # no such database: it is being restored, or not yet made
    "40": Meaning.CONFLICT,  # serialisation failure, deadlock
    "40002": Meaning.REFUSED,  # a constraint that is checked at the end
    "40003": Meaning.AWAY,  # nobody knows whether it was done
    "42": Meaning.REFUSED,  # syntax, names, privileges
    "53": Meaning.AWAY,  # disk full, out of memory, too many connections
    "54": Meaning.REFUSED,  # too long or too complex, and so it will be again
    "55P03": Meaning.CONFLICT,  # a lock that could not be had in time
    "57": Meaning.AWAY,  # statement timeout, cancelled or ended by an operator, shutting down, starting up
    "58": Meaning.AWAY,  # the server's own disk
    "XX": Meaning.AWAY,  # the server's own mistake
}
"""By SQLSTATE, or by its class, the first two letters."""

SQLITE: Final[Mapping[int, Meaning]] = {
    sqlite3.SQLITE_ERROR: Meaning.REFUSED,  # syntax, no such table
    sqlite3.SQLITE_INTERNAL: Meaning.AWAY,
    sqlite3.SQLITE_PERM: Meaning.AWAY,
    sqlite3.SQLITE_ABORT: Meaning.AWAY,
    sqlite3.SQLITE_BUSY: Meaning.AWAY,  # another process has written for longer than we wait
    sqlite3.SQLITE_LOCKED: Meaning.AWAY,
    sqlite3.SQLITE_NOMEM: Meaning.AWAY,
    sqlite3.SQLITE_READONLY: Meaning.AWAY,  # the disk, or the file for a while
    sqlite3.SQLITE_INTERRUPT: Meaning.AWAY,
    sqlite3.SQLITE_IOERR: Meaning.AWAY,
    sqlite3.SQLITE_CORRUPT: Meaning.REFUSED,
    sqlite3.SQLITE_FULL: Meaning.AWAY,
    sqlite3.SQLITE_CANTOPEN: Meaning.AWAY,
    sqlite3.SQLITE_PROTOCOL: Meaning.AWAY,  # the race for the lock of the WAL was lost again and again
    sqlite3.SQLITE_SCHEMA: Meaning.CONFLICT,  # another process is changing the tables
    sqlite3.SQLITE_TOOBIG: Meaning.REFUSED,
    sqlite3.SQLITE_CONSTRAINT: Meaning.REFUSED,
    sqlite3.SQLITE_MISMATCH: Meaning.REFUSED,
    sqlite3.SQLITE_MISUSE: Meaning.AWAY,  # the connection was closed meanwhile
    sqlite3.SQLITE_AUTH: Meaning.REFUSED,
    sqlite3.SQLITE_NOTADB: Meaning.REFUSED,
}
"""By the primary result code: the lowest byte of the extended one."""

KINDS: Final[Mapping[str, Meaning]] = {
    "OperationalError": Meaning.AWAY,
    "InterfaceError": Meaning.AWAY,
    "InternalError": Meaning.AWAY,
}
"""By the driver's kind of exception, where the database has said nothing: a connection that is broken or never was."""

_OF_THE_POOL = (TimeoutError, DisconnectionError, ResourceClosedError, PendingRollbackError)
"""SQLAlchemy's own words for having no connection: none is free, or it broke before the end of the transaction."""
_CLOSED = "closed database"
"""How SQLite's driver says, without a code and as a mistake of the caller's, that its connection was closed."""
_READ_ONLY = "25006"


def meaning_of(error: Exception) -> Meaning:
    """What an error means that came out of SQLAlchemy, or right out of a driver."""
    if isinstance(error, _OF_THE_POOL):
        return Meaning.AWAY
    if isinstance(error, DBAPIError):
        if error.connection_invalidated:
            return Meaning.AWAY
        return _meaning_to_driver(error.orig)
    return _meaning_to_driver(error)


def is_wrong_server(error: BaseException | None) -> bool:
    """Whether the connection leads to a server that takes no writes: another one may, by the same name."""
    return getattr(error, "sqlstate", None) == _READ_ONLY


def _meaning_to_driver(error: BaseException | None) -> Meaning:
    sqlstate = getattr(error, "sqlstate", None)
    if isinstance(sqlstate, str):
        known = POSTGRES.get(sqlstate) or POSTGRES.get(sqlstate[:2])
        if known is not None:
            return known
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        return SQLITE.get(code & 0xFF, Meaning.REFUSED)
    if isinstance(error, sqlite3.ProgrammingError) and _CLOSED in str(error):
        return Meaning.AWAY
    return next((KINDS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in KINDS), Meaning.REFUSED)
