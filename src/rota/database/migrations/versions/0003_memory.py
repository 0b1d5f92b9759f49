"""Memory: contexts, watermarks, summaries, statistics."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "memory_contexts",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("device_id", NAME, nullable=False),
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), server_default="", nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("keywords", sa.Text(), server_default="[]", nullable=False),
        sa.Column("importance", sa.SmallInteger(), nullable=False),
        sa.Column("details", sa.Text(), server_default="{}", nullable=False),
        sa.Column("embedding", sa.LargeBinary(), nullable=True),
        sa.Column("embedder", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("captured_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("compressed_at", sa.BigInteger(), nullable=True),
        sa.Column("enable_merge", sa.SmallInteger(), server_default="1", nullable=False),
        sa.Column("has_compression", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("leads", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("merge_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("merged_into", ROW_ID, nullable=True),
        sa.Column("leader_id", ROW_ID, nullable=True),
        sa.Column("batch_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memory_contexts")),
        sqlite_autoincrement=True,
    )
    owner = ["user_id", "device_id", "agent_id"]
    _partial_index("ix_memory_contexts_fresh", "state = 'fresh'", [*owner, "captured_at", "id"])
    _partial_index("ix_memory_contexts_leaders", "leads = 1", [*owner, "captured_at", "id"])
    _partial_index("ix_memory_contexts_merged_into", "merged_into IS NOT NULL", ["merged_into", "id"])
    op.create_index("ix_memory_contexts_user", "memory_contexts", ["user_id", "id"])
    op.create_index("ix_memory_contexts_age", "memory_contexts", ["updated_at", "id"])
    _partial_index("ix_memory_contexts_leader", "leader_id IS NOT NULL", ["leader_id"], unique=True)
    op.create_table(
        "memory_watermarks",
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("device_id", NAME, nullable=False),
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("compressed_to", sa.BigInteger(), nullable=False),
        sa.Column("last_run_at", sa.BigInteger(), nullable=False),
        sa.Column("runs", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "device_id", "agent_id", name=op.f("pk_memory_watermarks")),
    )
    op.create_table(
        "memory_summaries",
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("device_id", NAME, nullable=False),
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("period", NAME, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("keywords", sa.Text(), nullable=False),
        sa.Column("sources", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "user_id", "device_id", "agent_id", "level", "period", name=op.f("pk_memory_summaries")
        ),
    )
    op.create_table(
        "memory_statistics",
        sa.Column("user_id", NAME, nullable=False),
        sa.Column("contexts", sa.BigInteger(), nullable=False),
        sa.Column("figures", sa.Text(), nullable=False),
        sa.Column("counted_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_memory_statistics")),
    )
    op.create_index("ix_memory_statistics_contexts", "memory_statistics", ["contexts", "user_id"])


def _partial_index(name: str, where: str, columns: list[str], *, unique: bool = False) -> None:
    op.create_index(
        name,
        "memory_contexts",
        columns,
        unique=unique,
        sqlite_where=sa.text(where),
        postgresql_where=sa.text(where),
    )
