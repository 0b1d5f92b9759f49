"""What a run leaves, when it was due, and the group that its failure belongs to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("scheduled_tasks", sa.Column("failure", _Name, nullable=True))
    op.add_column("task_run_logs", sa.Column("due_at", sa.BigInteger(), nullable=True))
    op.add_column("task_run_logs", sa.Column("failure", _Name, nullable=True))
    _index(
        "ix_tasks_failure", "scheduled_tasks", ["failure", "status", "task_type", "key"], where="failure IS NOT NULL"
    )
    _index("ix_runs_failure", "task_run_logs", ["failure", "id"], where="failure IS NOT NULL")
    op.create_table(
        "run_details",
        sa.Column("task_type", _Name, nullable=False),
        sa.Column("key", _Name, nullable=False),
        sa.Column("token", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("user_id", _Name, nullable=True),
        sa.Column("written_at", sa.BigInteger(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("task_type", "key", "token", name="pk_run_details"),
    )
    op.create_index("ix_details_written", "run_details", ["written_at"])
    _index("ix_details_user", "run_details", ["user_id"], where="user_id IS NOT NULL")
    op.create_table(
        "failure_groups",
        sa.Column("task_type", _Name, nullable=False),
        sa.Column("id", _Name, nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("failure_group", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("task_type", "id", name="pk_failure_groups"),
    )
    op.create_index("ix_failures_last", "failure_groups", ["last_at"])


def _index(name: str, table: str, columns: list[str], *, where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
