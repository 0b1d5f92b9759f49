"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
SET_ASIDE = "status = 'failed' OR status = 'paused' OR status = 'cancelled'"
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _partial(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(sa.schema.CreateSequence(sa.Sequence("task_token_seq")))
    op.create_table(
        "after_log",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("task_type", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("user_id", NAME, nullable=True),
        sa.Column("device_id", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_after_log")),
    )
    op.create_table(
        "after_needs",
        sa.Column("task_type", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("arrived", NAME, nullable=False),
        sa.PrimaryKeyConstraint("task_type", "key", "arrived", name=op.f("pk_after_needs")),
    )
    op.create_table(
        "buckets",
        sa.Column("name", NAME, nullable=False),
        sa.Column("tokens", sa.Float(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_buckets")),
    )
    op.create_table(
        "instances",
        sa.Column("instance", NAME, nullable=False),
        sa.Column("beat", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("instance", name=op.f("pk_instances")),
    )
    op.create_table(
        "meta",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_meta")),
    )
    op.create_table(
        "scheduled_tasks",
        sa.Column("task_type", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("status", sa.Text(), nullable=True),
        sa.Column("scheduled_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=True),
        sa.Column("user_id", NAME, nullable=True),
        sa.Column("device_id", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("owner", NAME, nullable=True),
        sa.Column("payload", sa.Text(), nullable=True),
        sa.Column("priority", sa.SmallInteger(), server_default="5", nullable=False),
        sa.Column("serial", NAME, nullable=True),
        sa.Column("permits", sa.Integer(), server_default="1", nullable=False),
        sa.Column("cost", sa.Integer(), server_default="1", nullable=False),
        sa.Column("parked", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("trigger", sa.Text(), nullable=True),
        sa.Column("trigger_mode", sa.Text(), server_default="user_activity", nullable=False),
        sa.Column("policy", sa.Text(), nullable=True),
        sa.Column("version", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("fire_at", sa.BigInteger(), nullable=True),
        sa.Column("opened_at", sa.BigInteger(), nullable=True),
        sa.Column("next_fire", sa.BigInteger(), nullable=True),
        sa.Column("fires_run", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("max_runs", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("manual", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("first_activity_at", sa.BigInteger(), nullable=True),
        sa.Column("last_activity_at", sa.BigInteger(), nullable=True),
        sa.Column("coalesced", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("dirty", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("want", sa.Text(), server_default="none", nullable=False),
        sa.Column("token", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("instance", sa.Text(), nullable=True),
        sa.Column("claim_id", sa.Text(), nullable=True),
        sa.Column("claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("claimed_version", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("last_token", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("last_outcome", sa.Text(), nullable=True),
        sa.Column("attempt", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("errors", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("crashes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("snoozes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("purge_at", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("progress", sa.Text(), nullable=True),
        sa.Column("last_exec_at", sa.BigInteger(), nullable=True),
        sa.Column("fail_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("fail_until", sa.BigInteger(), nullable=True),
        sa.Column("last_claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("forget_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("task_type", "key", name=op.f("pk_scheduled_tasks")),
    )
    _partial("ix_tasks_expires", "scheduled_tasks", ["expires_at"], "expires_at IS NOT NULL")
    _partial("ix_tasks_forget", "scheduled_tasks", ["forget_at"], "status IS NULL")
    _partial(
        "ix_tasks_lane",
        "scheduled_tasks",
        ["task_type", "priority", "scheduled_at", "key"],
        "status = 'pending' AND parked = 0",
    )
    _partial("ix_tasks_lease", "scheduled_tasks", ["lease_until"], "status = 'running'")
    _partial("ix_tasks_owner", "scheduled_tasks", ["owner", "task_type", "key"], "owner IS NOT NULL")
    _partial("ix_tasks_purge", "scheduled_tasks", ["purge_at"], "purge_at IS NOT NULL")
    _partial("ix_tasks_schedules", "scheduled_tasks", ["task_type", "key"], "trigger IS NOT NULL")
    _partial("ix_tasks_serial", "scheduled_tasks", ["task_type", "serial", "status"], "serial IS NOT NULL")
    _partial("ix_tasks_set_aside", "scheduled_tasks", ["status", "task_type", "key"], SET_ASIDE)
    _partial("ix_tasks_user", "scheduled_tasks", ["user_id", "task_type", "key"], "user_id IS NOT NULL")

    op.create_table(
        "sequences",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_sequences")),
    )
    op.create_table(
        "task_counts",
        sa.Column("task_type", NAME, nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("pending", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("running", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("paused", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("completed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("failed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cancelled", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_total", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("coalesced_total", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("succeeded_total", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("errored_total", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("lost_total", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("task_type", "shard", name=op.f("pk_task_counts")),
    )
    op.create_table(
        "task_lanes",
        sa.Column("task_type", NAME, nullable=False),
        sa.Column("priority", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("task_type", "priority", name=op.f("pk_task_lanes")),
    )
    op.create_table(
        "task_run_logs",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("task_type", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("user_id", NAME, nullable=True),
        sa.Column("trigger_mode", sa.Text(), nullable=False),
        sa.Column("fire_at", sa.BigInteger(), nullable=True),
        sa.Column("last_fire_at", sa.BigInteger(), nullable=True),
        sa.Column("fires", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task_run_logs")),
        sqlite_autoincrement=True,
    )
    _partial("ix_runs_not_ok", "task_run_logs", ["status", "id"], "status <> 'success'")
    op.create_index("ix_runs_task", "task_run_logs", ["task_type", "key", "id"])

    op.create_table(
        "task_types",
        sa.Column("name", NAME, nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("overrides", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_task_types")),
    )
    op.execute("INSERT INTO sequences (name, value) VALUES ('token', 0)")
