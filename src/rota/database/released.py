"""The layouts of the versions that had no place of their own: their tables lay among everybody's, and their revision
stood in Alembic's own table, `alembic_version`, where an application that uses Alembic keeps its own.

Which of them lies at a place is told by both: an application's revision may be called 0001, too, and it may have a
table called `meta`; but not all of ours.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, TableClause, column, select, table, text

from rota.database.names import quoted, relations

__all__ = ["OLD_VERSION_TABLE", "TABLES", "mark_as_newer", "move", "older_revision"]

OLD_VERSION_TABLE: Final = "alembic_version"
_SEQUENCE: Final = "task_token_seq"

_FIRST: Final = (
    "after_log",
    "after_needs",
    "buckets",
    "instances",
    "meta",
    "scheduled_tasks",
    "sequences",
    "task_counts",
    "task_lanes",
    "task_run_logs",
    "task_types",
)
_HISTORY: Final = ("access_tokens", "alert_history", "alert_states", "audit_log", "erasures", "run_history")
_MEMORY: Final = ("memory_contexts", "memory_statistics", "memory_summaries", "memory_watermarks")
_AGENTS: Final = (
    "agent_groups",
    "agent_results",
    "agent_running",
    "agent_schedules",
    "agent_sessions",
    "agent_switches",
)

TABLES: Final = {
    "0001": _FIRST,
    "0002": _FIRST + _HISTORY,
    "0003": _FIRST + _HISTORY + _MEMORY,
    "0004": _FIRST + _HISTORY + _MEMORY + _AGENTS,
}
"""The tables of each revision; that is over, and never changes."""


def older_revision(connection: Connection, schema: str | None) -> str | None:
    """The revision of an older Rota in a schema (on SQLite: in the file); None if what lies there is none of ours."""
    present = relations(connection, schema)
    if OLD_VERSION_TABLE not in present:
        return None
    revision = _revision(connection, schema)
    tables = TABLES.get(revision) if revision is not None else None
    return revision if tables is not None and present >= set(tables) else None


def _revision(connection: Connection, schema: str | None) -> str | None:
    rows = connection.execute(select(_version(schema).c.version_num)).scalars().all()
    return str(rows[0]) if len(rows) == 1 else None


def move(connection: Connection, revision: str, old: str, new: str) -> None:
    """Its tables, with whatever hangs on them, into another schema of the same PostgreSQL."""
    for name in TABLES[revision]:
        connection.execute(text(f"ALTER TABLE {quoted(old)}.{name} SET SCHEMA {quoted(new)}"))
    connection.execute(text(f"ALTER SEQUENCE {quoted(old)}.{_SEQUENCE} SET SCHEMA {quoted(new)}"))


def mark_as_newer(connection: Connection, schema: str | None, revision: str) -> None:
    """Leave a word for an older Rota that comes back to its old place: it refuses a revision that it does not know, and
    would make a second, empty set of tables where it finds none."""
    connection.execute(_version(schema).update().values(version_num=revision))


def _version(schema: str | None) -> TableClause:
    return table(OLD_VERSION_TABLE, column("version_num"), schema=schema)
