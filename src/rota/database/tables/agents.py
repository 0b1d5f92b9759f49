"""Scheduled agents: groups and their sessions, who made a schedule, what runs now, and the switches that stop it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, SmallInteger, Table, Text, text

from rota.database.tables.base import Name, RowId, metadata, partial_index

__all__ = ["groups", "provenance", "results", "running", "sessions", "switches"]

groups = Table(
    "agent_groups",
    metadata,
    Column("folder", Name, primary_key=True),
    # Counts up and is never used twice: the group's own user on the host is derived from it.
    Column("number", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("chat_jid", Text, nullable=False),
    Column("is_main", SmallInteger, nullable=False, server_default="0"),
    # NULL: the zone of the whole installation.
    Column("timezone", Text),
    # JSON: where its owner is told what happened; '[]' for the log alone.
    Column("channels", Text, nullable=False, server_default="[]"),
    Column("has_network", SmallInteger, nullable=False, server_default="0"),
    Column("created_at", BigInteger, nullable=False),
    Column("removed_at", BigInteger),
)
Index("ix_agent_groups_number", groups.c.number, unique=True)
_MAIN = text("is_main = 1 AND removed_at IS NULL")
# There is one main group, whoever tries to add a second one at the same time.
Index("ix_agent_groups_main", groups.c.is_main, unique=True, sqlite_where=_MAIN, postgresql_where=_MAIN)

sessions = Table(
    "agent_sessions",
    metadata,
    Column("folder", Name, primary_key=True),
    Column("session_id", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

switches = Table(
    "agent_switches",
    metadata,
    # A group's folder, or '*' for all of them. A row means: off.
    Column("scope", Name, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("by", Text, nullable=False),
    Column("reason", Text, nullable=False),
)

provenance = Table(
    "agent_schedules",
    metadata,
    Column("id", Name, primary_key=True),
    Column("folder", Name, nullable=False),
    # Who made it: a person, or an agent, and then in which run (NULL: in a conversation).
    Column("made_by", Text, nullable=False),
    Column("made_in_run", Text),
    # 0: a person made it. 1: an agent did. More: an agent in a run of such a schedule.
    Column("depth", Integer, nullable=False),
    # none needed, waiting, approved, rejected.
    Column("approval", Text, nullable=False),
    # JSON: what was asked for and is not yet approved.
    Column("proposal", Text),
    Column("decided_by", Text),
    Column("decided_at", BigInteger),
    # SHA-256 of what it does; a run whose prompt or script has another one is refused.
    Column("digest", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # Failed runs in a row.
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("last_run_at", BigInteger),
    Column("last_result", Text),
    # Why Rota itself paused it; NULL if it did not.
    Column("held", Text),
)
Index("ix_agent_schedules_folder", provenance.c.folder, provenance.c.id)
partial_index("ix_agent_schedules_waiting", "approval = 'waiting'", provenance.c.created_at)

running = Table(
    "agent_running",
    metadata,
    Column("id", Name, primary_key=True),
    Column("folder", Name, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    # The last lines of its progress, as people watch it.
    Column("output", Text, nullable=False, server_default=""),
    # Who wants this run, and this run alone, to end.
    Column("stop_by", Text),
)

results = Table(
    "agent_results",
    metadata,
    Column("row_id", RowId, primary_key=True, autoincrement=True),
    Column("id", Name, nullable=False),
    Column("folder", Name, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("result", Text),
    Column("error", Text),
    sqlite_autoincrement=True,
)
Index("ix_agent_results_id", results.c.id, results.c.row_id)
