"""Events: the outbox and its log, how far consumers have read, what became of each event, flows that wait."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_RowId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _outbox()
    _offsets()
    _inbox()
    _handles()
    _arrivals()
    op.execute("INSERT INTO sequences (name, value) VALUES ('event_position', 0) ON CONFLICT DO NOTHING")


def _outbox() -> None:
    op.create_table(
        "event_outbox",
        sa.Column("seq", _RowId, nullable=False, autoincrement=True),
        sa.Column("event_id", _Name, nullable=False),
        sa.Column("topic", _Name, nullable=False),
        sa.Column("key", _Name, nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("event_type", _Name, nullable=False),
        sa.Column("event_version", sa.Integer(), nullable=False),
        sa.Column("aggregate_type", sa.Text(), nullable=False),
        sa.Column("aggregate_id", sa.Text(), nullable=False),
        sa.Column("correlation_id", _Name, nullable=True),
        sa.Column("causation_id", sa.Text(), nullable=True),
        sa.Column("user_id", _Name, nullable=True),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("occurred_at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("next_at", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("lease_until", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("lease_token", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_event_outbox")),
        sqlite_autoincrement=True,
    )
    _partial("ix_event_outbox_new", "event_outbox", "status = 'new'", "topic", "key", "seq")
    _partial("ix_event_outbox_oldest", "event_outbox", "status = 'new'", "seq")
    _partial("ix_event_outbox_dead", "event_outbox", "status = 'dead'", "seq")
    _partial("ix_event_outbox_sent", "event_outbox", "status = 'sent'", "sent_at")
    _partial("ix_event_outbox_correlation", "event_outbox", "correlation_id IS NOT NULL", "correlation_id", "seq")
    _partial("ix_event_outbox_user", "event_outbox", "user_id IS NOT NULL", "user_id")
    op.create_index("ix_event_outbox_event_id", "event_outbox", ["event_id"], unique=True)
    op.create_index("ix_event_outbox_log", "event_outbox", ["topic", "position"])


def _offsets() -> None:
    op.create_table(
        "event_offsets",
        sa.Column("consumer", _Name, nullable=False),
        sa.Column("topic", _Name, nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("owner", _Name, nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("token", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("consumer", "topic", "partition", name=op.f("pk_event_offsets")),
    )


def _inbox() -> None:
    op.create_table(
        "event_inbox",
        sa.Column("seq", _RowId, nullable=False, autoincrement=True),
        sa.Column("consumer", _Name, nullable=False),
        sa.Column("event_id", _Name, nullable=False),
        sa.Column("topic", _Name, nullable=False),
        sa.Column("key", _Name, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("crashes", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("next_at", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("lease_until", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("lease_token", sa.Text(), nullable=True),
        sa.Column("error_class", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("envelope", sa.Text(), nullable=True),
        sa.Column("user_id", _Name, nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_event_inbox")),
        sqlite_autoincrement=True,
    )
    _partial(
        "ix_event_inbox_open", "event_inbox", "status IN ('started', 'retrying')", "consumer", "topic", "key", "seq"
    )
    _partial("ix_event_inbox_retrying", "event_inbox", "status = 'retrying'", "consumer", "next_at")
    _partial("ix_event_inbox_dead", "event_inbox", "status = 'dead'", "seq")
    _partial("ix_event_inbox_done", "event_inbox", "status = 'done'", "at")
    _partial("ix_event_inbox_user", "event_inbox", "user_id IS NOT NULL", "user_id")
    op.create_index("ix_event_inbox_event", "event_inbox", ["consumer", "event_id"], unique=True)


def _handles() -> None:
    op.create_table(
        "flow_resume_handles",
        sa.Column("id", _Name, nullable=False),
        sa.Column("correlation_id", _Name, nullable=False),
        sa.Column("flow_run_id", sa.Text(), nullable=True),
        sa.Column("task_name", sa.Text(), nullable=False),
        sa.Column("expected", sa.Text(), nullable=False),
        sa.Column("expected_count", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("failed", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("callback", sa.Text(), nullable=True),
        sa.Column("payload", sa.Text(), nullable=True),
        sa.Column("user_id", _Name, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("next_at", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("lease_until", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("lease_token", sa.Text(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("resumed_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flow_resume_handles")),
    )
    _partial("ix_flow_resume_handles_pending", "flow_resume_handles", "status = 'pending'", "expires_at")
    _partial("ix_flow_resume_handles_ready", "flow_resume_handles", "status IN ('ready', 'resuming')", "next_at")
    op.create_index("ix_flow_resume_handles_created", "flow_resume_handles", ["created_at"])
    op.create_index("ix_flow_resume_handles_of", "flow_resume_handles", ["correlation_id", "id"])
    _partial("ix_flow_resume_handles_user", "flow_resume_handles", "user_id IS NOT NULL", "user_id")
    _partial(
        "ix_flow_resume_handles_correlation",
        "flow_resume_handles",
        "status IN ('pending', 'ready', 'resuming')",
        "correlation_id",
        unique=True,
    )


def _arrivals() -> None:
    op.create_table(
        "flow_resume_arrivals",
        sa.Column("handle_id", _Name, nullable=False),
        sa.Column("event_id", _Name, nullable=False),
        sa.Column("event_type", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("handle_id", "event_id", name=op.f("pk_flow_resume_arrivals")),
    )


def _partial(name: str, table: str, where: str, *columns: str, unique: bool = False) -> None:
    op.create_index(
        name, table, list(columns), unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where)
    )
