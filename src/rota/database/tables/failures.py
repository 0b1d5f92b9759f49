"""What runs have left, and the groups of failures."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Table, Text

from rota.database.tables.base import Name, metadata, partial_index

__all__ = ["failure_groups", "run_details"]

run_details = Table(
    "run_details",
    metadata,
    Column("task_type", Name, primary_key=True),
    Column("key", Name, primary_key=True),
    Column("token", BigInteger, primary_key=True, autoincrement=False),
    Column("user_id", Name),
    Column("written_at", BigInteger, nullable=False),
    Column("details", Text, nullable=False),
)
Index("ix_details_written", run_details.c.written_at)
partial_index("ix_details_user", "user_id IS NOT NULL", run_details.c.user_id)

failure_groups = Table(
    "failure_groups",
    metadata,
    Column("task_type", Name, primary_key=True),
    Column("id", Name, primary_key=True),
    Column("last_at", BigInteger, nullable=False),
    Column("failure_group", Text, nullable=False),
)
Index("ix_failures_last", failure_groups.c.last_at)
