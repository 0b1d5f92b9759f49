"""What users' memories are made of: contexts and their lineage, and what upkeep has done with them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, SmallInteger, Table, Text, text

from rota.database.tables.base import Name, RowId, metadata, partial_index

__all__ = ["contexts", "statistics", "summaries", "watermarks"]

contexts = Table(
    "memory_contexts",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("user_id", Name, nullable=False),
    Column("device_id", Name, nullable=False),
    Column("agent_id", Name, nullable=False),
    # chat, screenshot or document.
    Column("kind", Text, nullable=False),
    # fresh (no compression has looked at it), kept (it stands for itself) or merged (it lives on in `merged_into`).
    Column("state", Text, nullable=False),
    Column("title", Text, nullable=False, server_default=""),
    Column("text", Text, nullable=False),
    # JSON: a list of words.
    Column("keywords", Text, nullable=False, server_default="[]"),
    Column("importance", SmallInteger, nullable=False),
    # JSON: what the sender said about it (role, url, window, ...).
    Column("details", Text, nullable=False, server_default="{}"),
    # One signed byte a dimension; NULL until it was computed, by the embedder named beside it.
    Column("embedding", LargeBinary),
    Column("embedder", Text),
    # Of a result: the vector of the context that it grew from, by the same embedder. Later ones are compared with it.
    Column("leading_embedding", LargeBinary),
    # When it happened, when the database took it, when its content last changed, when compression was done with it.
    Column("created_at", BigInteger, nullable=False),
    Column("captured_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("compressed_at", BigInteger),
    # Two flags: it may be merged; it is the result of a merge.
    Column("enable_merge", SmallInteger, nullable=False, server_default="1"),
    Column("has_compression", SmallInteger, nullable=False, server_default="0"),
    # 1: later contexts may join it.
    Column("leads", SmallInteger, nullable=False, server_default="0"),
    # How many contexts a result stands for; grows with every merge, so it also tells an old picture from a new one.
    Column("merge_count", Integer, nullable=False, server_default="0"),
    Column("merged_into", RowId),
    # Of a result: the context that it grew from, whose place in the order it keeps.
    Column("leader_id", RowId),
    Column("batch_id", Text),
    sqlite_autoincrement=True,
)
_OWNER = (contexts.c.user_id, contexts.c.device_id, contexts.c.agent_id)
partial_index("ix_memory_contexts_fresh", "state = 'fresh'", *_OWNER, contexts.c.captured_at, contexts.c.id)
partial_index("ix_memory_contexts_leaders", "leads = 1", *_OWNER, contexts.c.captured_at, contexts.c.id)
partial_index("ix_memory_contexts_merged_into", "merged_into IS NOT NULL", contexts.c.merged_into, contexts.c.id)
Index("ix_memory_contexts_user", contexts.c.user_id, contexts.c.id)
Index("ix_memory_contexts_age", contexts.c.updated_at, contexts.c.id)
# A context grows into one result at most, whatever races.
Index(
    "ix_memory_contexts_leader",
    contexts.c.leader_id,
    unique=True,
    sqlite_where=text("leader_id IS NOT NULL"),
    postgresql_where=text("leader_id IS NOT NULL"),
)

watermarks = Table(
    "memory_watermarks",
    metadata,
    Column("user_id", Name, primary_key=True),
    Column("device_id", Name, primary_key=True),
    Column("agent_id", Name, primary_key=True),
    # Everything that was captured up to here has been looked at.
    Column("compressed_to", BigInteger, nullable=False),
    Column("last_run_at", BigInteger, nullable=False),
    Column("runs", BigInteger, nullable=False),
)

summaries = Table(
    "memory_summaries",
    metadata,
    Column("user_id", Name, primary_key=True),
    Column("device_id", Name, primary_key=True),
    Column("agent_id", Name, primary_key=True),
    # day or week.
    Column("level", Text, primary_key=True),
    # 2026-01-05, or 2026-W02.
    Column("period", Name, primary_key=True),
    Column("text", Text, nullable=False),
    Column("keywords", Text, nullable=False),
    Column("sources", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

statistics = Table(
    "memory_statistics",
    metadata,
    # '' for all users together, an id that no user can have.
    Column("user_id", Name, primary_key=True),
    Column("contexts", BigInteger, nullable=False),
    # JSON: that and the rest.
    Column("figures", Text, nullable=False),
    Column("counted_at", BigInteger, nullable=False),
)
Index("ix_memory_statistics_contexts", statistics.c.contexts, statistics.c.user_id)
