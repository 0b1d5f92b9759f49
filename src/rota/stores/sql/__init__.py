"""SQLite and PostgreSQL, from one implementation."""

from rota.stores.sql.store import SqlStore

__all__ = ["SqlStore"]
