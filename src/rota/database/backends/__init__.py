"""The databases that Rota's tables can lie in, one file each."""

from __future__ import annotations

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from rota.clock import Clock
from rota.database.backend import Backend
from rota.database.backends.postgres import PostgresBackend
from rota.database.backends.sqlite import SqliteBackend
from rota.errors import InvalidConfig

__all__ = ["backend_for"]


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
