"""INSERT ... ON CONFLICT. SQLite and PostgreSQL spell it alike, but SQLAlchemy keeps them apart."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, Table
from sqlalchemy.dialects import postgresql, sqlite

__all__ = ["insert_new", "upsert"]


def upsert(database: str, table: Table) -> Any:
    """An INSERT that can be told what to do about rows that are there; `database` is the name of its dialect."""
    return (sqlite if database == "sqlite" else postgresql).insert(table)


def insert_new(connection: Connection, table: Table) -> Executable:
    """An INSERT that leaves rows alone that are there already."""
    return _insert_new(connection.dialect.name, table)


@cache
def _insert_new(database: str, table: Table) -> Executable:
    return upsert(database, table).on_conflict_do_nothing()
