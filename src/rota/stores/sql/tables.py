"""The tables. One definition for SQLite and PostgreSQL; `migrations/` brings an older database here.

Instants are epoch milliseconds in BIGINT. Text that is sorted by has the collation "C" on PostgreSQL, so that both
databases, and Python, agree on what comes first. Flags are 0 and 1, so that the partial indexes read alike.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    Sequence,
    SmallInteger,
    Table,
    Text,
    text,
)

__all__ = [
    "COUNTERS",
    "after_log",
    "after_needs",
    "buckets",
    "instances",
    "lanes",
    "meta",
    "metadata",
    "run_logs",
    "sequences",
    "task_counts",
    "task_types",
    "tasks",
    "token_sequence",
]

metadata = MetaData(
    naming_convention={"ix": "ix_%(table_name)s_%(column_0_N_name)s", "pk": "pk_%(table_name)s"},
)

_Name = Text().with_variant(Text(collation="C"), "postgresql")
_RowId = BigInteger().with_variant(Integer, "sqlite")

token_sequence = Sequence("task_token_seq", metadata=metadata)
"""Tokens on PostgreSQL; SQLite, which has one writer, counts in the table `sequences`."""

sequences = Table(
    "sequences", metadata, Column("name", Text, primary_key=True), Column("value", BigInteger, nullable=False)
)

meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

task_types = Table(
    "task_types",
    metadata,
    Column("name", _Name, primary_key=True),
    Column("config", Text, nullable=False),
    Column("overrides", Text, nullable=False),
)

tasks = Table(
    "scheduled_tasks",
    metadata,
    Column("task_type", _Name, primary_key=True),
    Column("key", _Name, primary_key=True),
    # NULL: the task was purged, and only the identity's past is left.
    Column("status", Text),
    Column("scheduled_at", BigInteger),
    Column("created_at", BigInteger),
    Column("updated_at", BigInteger),
    Column("user_id", _Name),
    Column("device_id", Text),
    Column("agent_id", Text),
    Column("owner", _Name),
    Column("payload", Text),
    Column("priority", SmallInteger, nullable=False, server_default="5"),
    Column("serial", _Name),
    Column("permits", Integer, nullable=False, server_default="1"),
    Column("cost", Integer, nullable=False, server_default="1"),
    Column("parked", SmallInteger, nullable=False, server_default="0"),
    Column("trigger", Text),
    Column("trigger_mode", Text, nullable=False, server_default="user_activity"),
    Column("policy", Text),
    Column("version", BigInteger, nullable=False, server_default="1"),
    Column("fire_at", BigInteger),
    Column("opened_at", BigInteger),
    Column("next_fire", BigInteger),
    Column("fires_run", BigInteger, nullable=False, server_default="0"),
    Column("max_runs", BigInteger),
    Column("expires_at", BigInteger),
    Column("manual", SmallInteger, nullable=False, server_default="0"),
    Column("first_activity_at", BigInteger),
    Column("last_activity_at", BigInteger),
    Column("coalesced", BigInteger, nullable=False, server_default="0"),
    Column("dirty", SmallInteger, nullable=False, server_default="0"),
    Column("want", Text, nullable=False, server_default="none"),
    Column("token", BigInteger, nullable=False, server_default="0"),
    Column("lease_until", BigInteger),
    Column("instance", Text),
    Column("claim_id", Text),
    Column("claimed_at", BigInteger),
    Column("claimed_version", BigInteger, nullable=False, server_default="0"),
    Column("last_token", BigInteger, nullable=False, server_default="0"),
    Column("last_outcome", Text),
    Column("attempt", BigInteger, nullable=False, server_default="0"),
    Column("errors", BigInteger, nullable=False, server_default="0"),
    Column("crashes", BigInteger, nullable=False, server_default="0"),
    Column("snoozes", BigInteger, nullable=False, server_default="0"),
    Column("finished_at", BigInteger),
    Column("purge_at", BigInteger),
    Column("reason", Text),
    Column("error", Text),
    Column("result", Text),
    Column("progress", Text),
    # The past of the identity, which outlives the task.
    Column("last_exec_at", BigInteger),
    Column("fail_count", BigInteger, nullable=False, server_default="0"),
    Column("fail_until", BigInteger),
    Column("last_claimed_at", BigInteger),
    Column("forget_at", BigInteger),
)


def _partial(name: str, where: str, *columns: Column[object]) -> Index:
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


_c = tasks.c
# Each index holds only the rows that its query looks for: a completed task costs no index but its identity.
_partial("ix_tasks_lane", "status = 'pending' AND parked = 0", _c.task_type, _c.priority, _c.scheduled_at, _c.key)
_partial("ix_tasks_lease", "status = 'running'", _c.lease_until)
_partial("ix_tasks_serial", "serial IS NOT NULL", _c.task_type, _c.serial, _c.status)
_partial("ix_tasks_expires", "expires_at IS NOT NULL", _c.expires_at)
_partial("ix_tasks_purge", "purge_at IS NOT NULL", _c.purge_at)
_partial("ix_tasks_forget", "status IS NULL", _c.forget_at)
_partial("ix_tasks_owner", "owner IS NOT NULL", _c.owner, _c.task_type, _c.key)
_partial("ix_tasks_user", "user_id IS NOT NULL", _c.user_id, _c.task_type, _c.key)
_partial("ix_tasks_schedules", "trigger IS NOT NULL", _c.task_type, _c.key)
# OR, not IN: SQLite builds a table for every IN that it tests, at every write of a status.
_SET_ASIDE = "status = 'failed' OR status = 'paused' OR status = 'cancelled'"
_partial("ix_tasks_set_aside", _SET_ASIDE, _c.status, _c.task_type, _c.key)

COUNTERS = (
    "pending",
    "running",
    "paused",
    "completed",
    "failed",
    "cancelled",
    "created_total",
    "coalesced_total",
    "succeeded_total",
    "errored_total",
    "lost_total",
)

task_counts = Table(
    "task_counts",
    metadata,
    Column("task_type", _Name, primary_key=True),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    *(Column(name, BigInteger, nullable=False, server_default="0") for name in COUNTERS),
)

lanes = Table(
    "task_lanes",
    metadata,
    Column("task_type", _Name, primary_key=True),
    Column("priority", SmallInteger, primary_key=True, autoincrement=False),
)

run_logs = Table(
    "task_run_logs",
    metadata,
    Column("id", _RowId, primary_key=True, autoincrement=True),
    Column("task_type", _Name, nullable=False),
    Column("key", _Name, nullable=False),
    Column("status", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("user_id", _Name),
    Column("trigger_mode", Text, nullable=False),
    Column("fire_at", BigInteger),
    Column("last_fire_at", BigInteger),
    Column("fires", BigInteger, nullable=False),
    Column("duration_ms", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("instance", Text),
    Column("reason", Text),
    Column("result", Text),
    Column("error", Text),
    # An id is never used twice: pages and links stay true after the log was pruned.
    sqlite_autoincrement=True,
)
Index("ix_runs_task", run_logs.c.task_type, run_logs.c.key, run_logs.c.id)
_partial("ix_runs_not_ok", "status <> 'success'", run_logs.c.status, run_logs.c.id)

after_log = Table(
    "after_log",
    metadata,
    Column("id", _RowId, primary_key=True, autoincrement=True),
    Column("task_type", _Name, nullable=False),
    Column("key", _Name, nullable=False),
    Column("user_id", _Name),
    Column("device_id", Text),
    Column("agent_id", Text),
)

after_needs = Table(
    "after_needs",
    metadata,
    Column("task_type", _Name, primary_key=True),
    Column("key", _Name, primary_key=True),
    Column("arrived", _Name, primary_key=True),
)

buckets = Table(
    "buckets",
    metadata,
    Column("name", _Name, primary_key=True),
    Column("tokens", Float, nullable=False),
    Column("at", BigInteger, nullable=False),
)

instances = Table(
    "instances",
    metadata,
    Column("instance", _Name, primary_key=True),
    Column("beat", Text, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
)
