"""What the store keeps: tasks, types, runs, counters, instances."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, Sequence, SmallInteger, Table, Text

from rota.database.tables.base import Name, RowId, metadata, partial_index

__all__ = [
    "COUNTERS",
    "after_log",
    "after_needs",
    "buckets",
    "erasures",
    "history",
    "instances",
    "lanes",
    "meta",
    "run_logs",
    "sequences",
    "task_counts",
    "task_types",
    "tasks",
    "token_sequence",
]

token_sequence = Sequence("task_token_seq", metadata=metadata)
"""Tokens on PostgreSQL; SQLite, which has one writer, counts in the table `sequences`."""

sequences = Table(
    "sequences", metadata, Column("name", Text, primary_key=True), Column("value", BigInteger, nullable=False)
)

meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

task_types = Table(
    "task_types",
    metadata,
    Column("name", Name, primary_key=True),
    Column("config", Text, nullable=False),
    Column("overrides", Text, nullable=False),
)

tasks = Table(
    "scheduled_tasks",
    metadata,
    Column("task_type", Name, primary_key=True),
    Column("key", Name, primary_key=True),
    # NULL: the task was purged, and only the identity's past is left.
    Column("status", Text),
    Column("scheduled_at", BigInteger),
    Column("created_at", BigInteger),
    Column("updated_at", BigInteger),
    Column("user_id", Name),
    Column("device_id", Text),
    Column("agent_id", Text),
    Column("owner", Name),
    Column("payload", Text),
    Column("priority", SmallInteger, nullable=False, server_default="5"),
    Column("serial", Name),
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
    Column("times_run", BigInteger, nullable=False, server_default="0"),
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
    Column("renewed", SmallInteger, nullable=False, server_default="0"),
    Column("extended", SmallInteger, nullable=False, server_default="0"),
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
    Column("failure", Name),
    Column("trace", Text),
    # The past of the identity, which outlives the task.
    Column("last_exec_at", BigInteger),
    Column("fail_count", BigInteger, nullable=False, server_default="0"),
    Column("fail_until", BigInteger),
    Column("last_claimed_at", BigInteger),
    Column("forget_at", BigInteger),
)


_c = tasks.c
# Each index holds only the rows that its query looks for: a completed task costs no index but its identity.
partial_index("ix_tasks_lane", "status = 'pending' AND parked = 0", _c.task_type, _c.priority, _c.scheduled_at, _c.key)
partial_index("ix_tasks_parked", "status = 'pending' AND parked = 1", _c.task_type, _c.scheduled_at)
partial_index("ix_tasks_lease", "status = 'running'", _c.lease_until)
partial_index("ix_tasks_serial", "serial IS NOT NULL", _c.task_type, _c.serial, _c.status)
partial_index("ix_tasks_expires", "expires_at IS NOT NULL", _c.expires_at)
partial_index("ix_tasks_purge", "purge_at IS NOT NULL", _c.purge_at)
partial_index("ix_tasks_forget", "status IS NULL", _c.forget_at)
partial_index("ix_tasks_owner", "owner IS NOT NULL", _c.owner, _c.task_type, _c.key)
partial_index("ix_tasks_user", "user_id IS NOT NULL", _c.user_id, _c.task_type, _c.key)
partial_index("ix_tasks_failure", "failure IS NOT NULL", _c.failure, _c.status, _c.task_type, _c.key)
partial_index("ix_tasks_schedules", "trigger IS NOT NULL", _c.task_type, _c.key)
# OR, not IN: SQLite builds a table for every IN that it tests, at every write of a status.
_SET_ASIDE = "status = 'failed' OR status = 'paused' OR status = 'cancelled'"
partial_index("ix_tasks_set_aside", _SET_ASIDE, _c.status, _c.task_type, _c.key)

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
    Column("task_type", Name, primary_key=True),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    *(Column(name, BigInteger, nullable=False, server_default="0") for name in COUNTERS),
)

lanes = Table(
    "task_lanes",
    metadata,
    Column("task_type", Name, primary_key=True),
    Column("priority", SmallInteger, primary_key=True, autoincrement=False),
)

run_logs = Table(
    "task_run_logs",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("task_type", Name, nullable=False),
    Column("key", Name, nullable=False),
    Column("status", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("user_id", Name),
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
    Column("due_at", BigInteger),
    Column("failure", Name),
    # An id is never used twice: pages and links stay true after the log was pruned.
    sqlite_autoincrement=True,
)
Index("ix_runs_task", run_logs.c.task_type, run_logs.c.key, run_logs.c.id)
partial_index("ix_runs_user", "user_id IS NOT NULL", run_logs.c.user_id, run_logs.c.id)
partial_index("ix_runs_failure", "failure IS NOT NULL", run_logs.c.failure, run_logs.c.id)
partial_index("ix_runs_not_ok", "status <> 'success'", run_logs.c.status, run_logs.c.id)

after_log = Table(
    "after_log",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("task_type", Name, nullable=False),
    Column("key", Name, nullable=False),
    Column("user_id", Name),
    Column("device_id", Text),
    Column("agent_id", Text),
    Column("trace", Text),
)

after_needs = Table(
    "after_needs",
    metadata,
    Column("task_type", Name, primary_key=True),
    Column("key", Name, primary_key=True),
    Column("arrived", Name, primary_key=True),
)

buckets = Table(
    "buckets",
    metadata,
    Column("name", Name, primary_key=True),
    Column("tokens", Float, nullable=False),
    Column("at", BigInteger, nullable=False),
)

instances = Table(
    "instances",
    metadata,
    Column("instance", Name, primary_key=True),
    Column("beat", Text, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
)

history = Table(
    "run_history",
    metadata,
    # 'minute' or 'hour': how long the slice is that begins at `start_at`.
    Column("span", Text, primary_key=True),
    Column("start_at", BigInteger, primary_key=True, autoincrement=False),
    Column("task_type", Name, primary_key=True),
    Column("trigger_mode", Text, primary_key=True),
    Column("slice", Text, nullable=False),
)

erasures = Table(
    "erasures",
    metadata,
    # The tombstone of a user whose records are being removed; what is newer than `asked_at` is not theirs to remove.
    Column("user_id", Name, primary_key=True),
    Column("asked_at", BigInteger, nullable=False),
    Column("done_at", BigInteger),
    Column("tasks", BigInteger, nullable=False, server_default="0"),
    Column("runs", BigInteger, nullable=False, server_default="0"),
    Column("running", BigInteger, nullable=False, server_default="0"),
)
