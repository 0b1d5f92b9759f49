"""Scheduled agents: groups, sessions, switches, who made a schedule, what runs now, results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _groups()
    _schedules()
    op.create_table(
        "agent_running",
        sa.Column("id", NAME, nullable=False),
        sa.Column("folder", NAME, nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("output", sa.Text(), server_default="", nullable=False),
        sa.Column("stop_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agent_running")),
    )
    op.create_table(
        "agent_results",
        sa.Column("row_id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("id", NAME, nullable=False),
        sa.Column("folder", NAME, nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("row_id", name=op.f("pk_agent_results")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_agent_results_id", "agent_results", ["id", "row_id"])


def _groups() -> None:
    op.create_table(
        "agent_groups",
        sa.Column("folder", NAME, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("chat_jid", sa.Text(), nullable=False),
        sa.Column("is_main", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("timezone", sa.Text(), nullable=True),
        sa.Column("channels", sa.Text(), server_default="[]", nullable=False),
        sa.Column("has_network", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("removed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("folder", name=op.f("pk_agent_groups")),
    )
    op.create_index("ix_agent_groups_number", "agent_groups", ["number"], unique=True)
    where = sa.text("is_main = 1 AND removed_at IS NULL")
    op.create_index(
        "ix_agent_groups_main", "agent_groups", ["is_main"], unique=True, sqlite_where=where, postgresql_where=where
    )
    op.create_table(
        "agent_sessions",
        sa.Column("folder", NAME, nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("folder", name=op.f("pk_agent_sessions")),
    )
    op.create_table(
        "agent_switches",
        sa.Column("scope", NAME, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("scope", name=op.f("pk_agent_switches")),
    )


def _schedules() -> None:
    op.create_table(
        "agent_schedules",
        sa.Column("id", NAME, nullable=False),
        sa.Column("folder", NAME, nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.Column("made_in_run", sa.Text(), nullable=True),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("approval", sa.Text(), nullable=False),
        sa.Column("proposal", sa.Text(), nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_run_at", sa.BigInteger(), nullable=True),
        sa.Column("last_result", sa.Text(), nullable=True),
        sa.Column("held", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agent_schedules")),
    )
    op.create_index("ix_agent_schedules_folder", "agent_schedules", ["folder", "id"])
    waiting = sa.text("approval = 'waiting'")
    op.create_index(
        "ix_agent_schedules_waiting",
        "agent_schedules",
        ["created_at"],
        sqlite_where=waiting,
        postgresql_where=waiting,
    )
