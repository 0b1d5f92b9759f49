"""Batches: what was asked for, its subtasks and items, what is told about it, and the switches of an operator."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    _batches()
    _subtasks()
    _items()
    _events()
    _switches()


def _batches() -> None:
    op.create_table(
        "batches",
        sa.Column("id", _Name, nullable=False),
        sa.Column("owner", _Name, nullable=False),
        sa.Column("user_id", _Name, nullable=True),
        sa.Column("session_id", _Name, nullable=False),
        sa.Column("type", _Name, nullable=False),
        sa.Column("agent", _Name, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("style", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("distinct", sa.Text(), nullable=False),
        sa.Column("similarity", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("deadline_at", sa.BigInteger(), nullable=False),
        sa.Column("budget_tokens", sa.BigInteger(), nullable=True),
        sa.Column("idempotency_key", _Name, nullable=True),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("correlation_id", _Name, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("expected", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("failed", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("items", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("duplicates", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("invalid", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("late", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("rounds", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("tokens_in", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("tokens_out", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("events", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("numbers", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("first_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batches")),
    )
    _partial("ix_batches_open", "batches", "status IN ('running', 'paused')", "deadline_at")
    _partial("ix_batches_ended", "batches", "ended_at IS NOT NULL", "ended_at")
    _partial("ix_batches_user", "batches", "user_id IS NOT NULL", "user_id")
    op.create_index("ix_batches_session", "batches", ["session_id", "id"])
    _partial(
        "ix_batches_idempotency", "batches", "idempotency_key IS NOT NULL", "owner", "idempotency_key", unique=True
    )


def _subtasks() -> None:
    op.create_table(
        "batch_subtasks",
        sa.Column("id", _Name, nullable=False),
        sa.Column("batch_id", _Name, nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("cost", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("errors", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("queue_told", sa.Integer(), nullable=False),
        sa.Column("event_id", _Name, nullable=True),
        sa.Column("dispatched_at", sa.BigInteger(), nullable=True),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("wait_ms", sa.BigInteger(), nullable=True),
        sa.Column("error_class", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("kept", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batch_subtasks")),
    )
    _partial("ix_batch_subtasks_new", "batch_subtasks", "queue_told = 0", "created_at")
    _partial("ix_batch_subtasks_queued", "batch_subtasks", "status = 'queued'", "created_at")
    _partial("ix_batch_subtasks_dispatched", "batch_subtasks", "status = 'dispatched'", "sent_at")
    op.create_index("ix_batch_subtasks_of", "batch_subtasks", ["batch_id", "round", "index"], unique=True)


def _items() -> None:
    op.create_table(
        "batch_items",
        sa.Column("batch_id", _Name, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("subtask_id", _Name, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("normal", _Name, nullable=False),
        sa.Column("fields", sa.Text(), nullable=False),
        sa.Column("twin", sa.Text(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("batch_id", "number", name=op.f("pk_batch_items")),
    )
    _partial("ix_batch_items_normal", "batch_items", "outcome = 'kept'", "batch_id", "normal", unique=True)


def _events() -> None:
    op.create_table(
        "batch_events",
        sa.Column("batch_id", _Name, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("batch_id", "number", name=op.f("pk_batch_events")),
    )


def _switches() -> None:
    op.create_table(
        "batch_switches",
        sa.Column("name", _Name, nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_batch_switches")),
    )


def _partial(name: str, table: str, where: str, *columns: str, unique: bool = False) -> None:
    op.create_index(
        name, table, list(columns), unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where)
    )
