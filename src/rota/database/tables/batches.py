"""Batches: what was asked for, how it was split, what came of it, and what was told about it.

Rows are the truth: the queue of subtasks can be made anew from them.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text, text

from rota.database.tables.base import Name, metadata, partial_index

__all__ = ["batch_events", "batch_items", "batch_subtasks", "batch_switches", "batches"]

batches = Table(
    "batches",
    metadata,
    Column("id", Name, primary_key=True),
    Column("owner", Name, nullable=False),
    Column("user_id", Name),
    Column("session_id", Name, nullable=False),
    Column("type", Name, nullable=False),
    Column("agent", Name, nullable=False),
    Column("count", Integer, nullable=False),
    # JSON: a text, or an object.
    Column("style", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("seed", BigInteger, nullable=False),
    # batch or session: among which items no two may be alike.
    Column("distinct", Text, nullable=False),
    Column("similarity", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    Column("deadline_at", BigInteger, nullable=False),
    Column("budget_tokens", BigInteger),
    Column("idempotency_key", Name),
    # Of the body that came with the key: another one is refused.
    Column("digest", Text),
    Column("correlation_id", Name, nullable=False),
    # running, paused, completed, failed or cancelled.
    Column("status", Text, nullable=False),
    Column("reason", Text),
    # Subtasks of all rounds, and how many of them have ended, well or not.
    Column("expected", Integer, nullable=False),
    Column("done", Integer, nullable=False, server_default="0"),
    Column("failed", Integer, nullable=False, server_default="0"),
    # What came: kept, dropped, and what came when nobody wanted it any more.
    Column("items", Integer, nullable=False, server_default="0"),
    Column("duplicates", Integer, nullable=False, server_default="0"),
    Column("invalid", Integer, nullable=False, server_default="0"),
    Column("late", Integer, nullable=False, server_default="0"),
    Column("rounds", Integer, nullable=False, server_default="0"),
    Column("tokens_in", BigInteger, nullable=False, server_default="0"),
    Column("tokens_out", BigInteger, nullable=False, server_default="0"),
    # The numbers of its last event and of its last item, dropped ones too.
    Column("events", Integer, nullable=False, server_default="0"),
    Column("numbers", Integer, nullable=False, server_default="0"),
    Column("first_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
)
Index(
    "ix_batches_idempotency",
    batches.c.owner,
    batches.c.idempotency_key,
    unique=True,
    sqlite_where=text("idempotency_key IS NOT NULL"),
    postgresql_where=text("idempotency_key IS NOT NULL"),
)
partial_index("ix_batches_open", "status IN ('running', 'paused')", batches.c.deadline_at)
partial_index("ix_batches_ended", "ended_at IS NOT NULL", batches.c.ended_at)
Index("ix_batches_session", batches.c.session_id, batches.c.id)
partial_index("ix_batches_user", "user_id IS NOT NULL", batches.c.user_id)

batch_subtasks = Table(
    "batch_subtasks",
    metadata,
    # Batch, index and round: the key of its task, too.
    Column("id", Name, primary_key=True),
    Column("batch_id", Name, nullable=False),
    Column("index", Integer, nullable=False),
    Column("round", Integer, nullable=False),
    Column("count", Integer, nullable=False),
    # Tokens that it will take, as far as anybody can tell before.
    Column("cost", Integer, nullable=False),
    # queued, dispatched, done, failed or cancelled.
    Column("status", Text, nullable=False),
    # How often it was dispatched, and how many of these count as failed.
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("errors", Integer, nullable=False, server_default="0"),
    # 0 until the queue has been told: to take it on, or to drop it.
    Column("queue_told", Integer, nullable=False),
    # The event that asks an agent for it, and when it was sent, or sent again.
    Column("event_id", Name),
    Column("dispatched_at", BigInteger),
    Column("sent_at", BigInteger),
    Column("ended_at", BigInteger),
    # After a failure it waits so long.
    Column("wait_ms", BigInteger),
    Column("error_class", Text),
    Column("error", Text),
    Column("kept", Integer, nullable=False, server_default="0"),
    Column("created_at", BigInteger, nullable=False),
)
Index(
    "ix_batch_subtasks_of",
    batch_subtasks.c.batch_id,
    batch_subtasks.c.round,
    batch_subtasks.c.index,
    unique=True,
)
partial_index("ix_batch_subtasks_new", "queue_told = 0", batch_subtasks.c.created_at)
partial_index("ix_batch_subtasks_queued", "status = 'queued'", batch_subtasks.c.created_at)
partial_index("ix_batch_subtasks_dispatched", "status = 'dispatched'", batch_subtasks.c.sent_at)

batch_items = Table(
    "batch_items",
    metadata,
    Column("batch_id", Name, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("subtask_id", Name, nullable=False),
    # kept, duplicate or invalid.
    Column("outcome", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("normal", Name, nullable=False),
    # JSON.
    Column("fields", Text, nullable=False),
    # The item that it is too much like, or what is wrong with it.
    Column("twin", Text),
    Column("at", BigInteger, nullable=False),
)
Index(
    "ix_batch_items_normal",
    batch_items.c.batch_id,
    batch_items.c.normal,
    unique=True,
    sqlite_where=text("outcome = 'kept'"),
    postgresql_where=text("outcome = 'kept'"),
)

batch_events = Table(
    "batch_events",
    metadata,
    Column("batch_id", Name, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("event", Text, nullable=False),
    # JSON.
    Column("data", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)

batch_switches = Table(
    "batch_switches",
    metadata,
    Column("name", Name, primary_key=True),
    Column("by", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)
