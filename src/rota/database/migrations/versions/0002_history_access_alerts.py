"""Run history, erasures, access tokens, the audit log and alerts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "run_history",
        sa.Column("span", sa.Text(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("task_type", NAME, nullable=False),
        sa.Column("trigger_mode", sa.Text(), nullable=False),
        sa.Column("slice", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("span", "start_at", "task_type", "trigger_mode", name=op.f("pk_run_history")),
    )
    op.create_table(
        "erasures",
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("done_at", sa.BigInteger(), nullable=True),
        sa.Column("tasks", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("runs", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("running", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_erasures")),
    )
    op.create_table(
        "access_tokens",
        sa.Column("id", NAME, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), server_default="{}", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_access_tokens")),
    )
    op.create_index("ix_access_tokens_digest", "access_tokens", ["digest"], unique=True)
    op.create_table(
        "audit_log",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", NAME, nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("via", sa.Text(), nullable=False),
        sa.Column("action", NAME, nullable=False),
        sa.Column("target", NAME, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_log")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_actor", "audit_log", ["actor", "id"])
    op.create_index("ix_audit_action", "audit_log", ["action", "id"])
    op.create_index("ix_audit_target", "audit_log", ["target", "id"])
    op.create_table(
        "alert_states",
        sa.Column("rule", NAME, nullable=False),
        sa.Column("subject", NAME, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("since_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("rule", "subject", name=op.f("pk_alert_states")),
    )
    op.create_table(
        "alert_history",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("rule", NAME, nullable=False),
        sa.Column("subject", NAME, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("delivered", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_history")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_alert_history_rule", "alert_history", ["rule", "subject", "id"])
    _partial("ix_tasks_parked", "scheduled_tasks", ["task_type", "scheduled_at"], "status = 'pending' AND parked = 1")
    _partial("ix_runs_user", "task_run_logs", ["user_id", "id"], "user_id IS NOT NULL")


def _partial(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
