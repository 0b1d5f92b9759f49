"""A merged note has two vectors: that of its text, by which it is found, and the one with which others are compared."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("memory_contexts", sa.Column("leading_embedding", sa.LargeBinary()))
