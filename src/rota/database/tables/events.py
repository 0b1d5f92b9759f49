"""Events: what is to be published, how far each consumer has read, what became of each event, and flows that wait.

`event_outbox` has the columns that Debezium's outbox router asks for, under names that it can be told.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text, text

from rota.database.tables.base import Name, RowId, metadata, partial_index

__all__ = ["arrivals", "handles", "inbox", "offsets", "outbox"]

outbox = Table(
    "event_outbox",
    metadata,
    # The order of insertion. SQLite counts nothing but a primary key.
    Column("seq", RowId, primary_key=True, autoincrement=True),
    Column("event_id", Name, nullable=False),
    Column("topic", Name, nullable=False),
    Column("key", Name, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("event_type", Name, nullable=False),
    Column("event_version", Integer, nullable=False),
    Column("aggregate_type", Text, nullable=False),
    Column("aggregate_id", Text, nullable=False),
    Column("correlation_id", Name),
    Column("causation_id", Text),
    Column("user_id", Name),
    # JSON: what the bus carries beside the envelope, as the trace that it belongs to.
    Column("headers", Text, nullable=False),
    # JSON.
    Column("payload", Text, nullable=False),
    Column("occurred_at", BigInteger, nullable=False),
    # new, sent or dead.
    Column("status", Text, nullable=False),
    # Its place in the log of the local bus, in which the order of commits is the order of positions.
    Column("position", BigInteger),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("next_at", BigInteger, nullable=False, server_default="0"),
    Column("lease_until", BigInteger, nullable=False, server_default="0"),
    Column("lease_token", Text),
    Column("error", Text),
    Column("sent_at", BigInteger),
    sqlite_autoincrement=True,
)
Index("ix_event_outbox_event_id", outbox.c.event_id, unique=True)
partial_index("ix_event_outbox_new", "status = 'new'", outbox.c.topic, outbox.c.key, outbox.c.seq)
partial_index("ix_event_outbox_oldest", "status = 'new'", outbox.c.seq)
partial_index("ix_event_outbox_dead", "status = 'dead'", outbox.c.seq)
Index("ix_event_outbox_log", outbox.c.topic, outbox.c.position)
partial_index("ix_event_outbox_sent", "status = 'sent'", outbox.c.sent_at)
partial_index("ix_event_outbox_correlation", "correlation_id IS NOT NULL", outbox.c.correlation_id, outbox.c.seq)
partial_index("ix_event_outbox_user", "user_id IS NOT NULL", outbox.c.user_id)

offsets = Table(
    "event_offsets",
    metadata,
    Column("consumer", Name, primary_key=True),
    Column("topic", Name, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    # All up to here is done, or waits in the inbox.
    Column("position", BigInteger, nullable=False),
    Column("owner", Name),
    Column("lease_until", BigInteger, nullable=False, server_default="0"),
    Column("token", Text),
)

inbox = Table(
    "event_inbox",
    metadata,
    # The order of arrival, in which the events of a key that wait are tried.
    Column("seq", RowId, primary_key=True, autoincrement=True),
    Column("consumer", Name, nullable=False),
    Column("event_id", Name, nullable=False),
    Column("topic", Name, nullable=False),
    Column("key", Name, nullable=False),
    # started, done, retrying or dead.
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    # How often it was started and not brought to any end.
    Column("crashes", Integer, nullable=False, server_default="0"),
    Column("next_at", BigInteger, nullable=False, server_default="0"),
    Column("lease_until", BigInteger, nullable=False, server_default="0"),
    Column("lease_token", Text),
    Column("error_class", Text),
    Column("error", Text),
    # JSON: the message, while the bus is not to bring it again (retrying, dead).
    Column("envelope", Text),
    Column("user_id", Name),
    Column("at", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
Index("ix_event_inbox_event", inbox.c.consumer, inbox.c.event_id, unique=True)
_OPEN = "status IN ('started', 'retrying')"
partial_index("ix_event_inbox_open", _OPEN, inbox.c.consumer, inbox.c.topic, inbox.c.key, inbox.c.seq)
partial_index("ix_event_inbox_retrying", "status = 'retrying'", inbox.c.consumer, inbox.c.next_at)
partial_index("ix_event_inbox_dead", "status = 'dead'", inbox.c.seq)
partial_index("ix_event_inbox_done", "status = 'done'", inbox.c.at)
partial_index("ix_event_inbox_user", "user_id IS NOT NULL", inbox.c.user_id)

handles = Table(
    "flow_resume_handles",
    metadata,
    Column("id", Name, primary_key=True),
    Column("correlation_id", Name, nullable=False),
    Column("flow_run_id", Text),
    Column("task_name", Text, nullable=False),
    # JSON: the types of the events that it waits for, each a success or a failure.
    Column("expected", Text, nullable=False),
    Column("expected_count", Integer, nullable=False),
    Column("done", Integer, nullable=False, server_default="0"),
    Column("failed", Integer, nullable=False, server_default="0"),
    # pending, ready, resuming, resumed, expired or failed.
    Column("status", Text, nullable=False),
    # JSON: whom to call; NULL if a flow of our own waits for it.
    Column("callback", Text),
    # JSON: what whoever is resumed is handed.
    Column("payload", Text),
    Column("user_id", Name),
    Column("error", Text),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("next_at", BigInteger, nullable=False, server_default="0"),
    Column("lease_until", BigInteger, nullable=False, server_default="0"),
    Column("lease_token", Text),
    Column("expires_at", BigInteger, nullable=False),
    Column("resumed_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
)
_WAITING = "status IN ('pending', 'ready', 'resuming')"
Index(
    "ix_flow_resume_handles_correlation",
    handles.c.correlation_id,
    unique=True,
    sqlite_where=text(_WAITING),
    postgresql_where=text(_WAITING),
)
partial_index("ix_flow_resume_handles_pending", "status = 'pending'", handles.c.expires_at)
partial_index("ix_flow_resume_handles_ready", "status IN ('ready', 'resuming')", handles.c.next_at)
Index("ix_flow_resume_handles_created", handles.c.created_at)
Index("ix_flow_resume_handles_of", handles.c.correlation_id, handles.c.id)
partial_index("ix_flow_resume_handles_user", "user_id IS NOT NULL", handles.c.user_id)

arrivals = Table(
    "flow_resume_arrivals",
    metadata,
    Column("handle_id", Name, primary_key=True),
    Column("event_id", Name, primary_key=True),
    Column("event_type", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)
