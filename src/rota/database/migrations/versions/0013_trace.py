"""In which trace a task was made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("scheduled_tasks", sa.Column("trace", sa.Text(), nullable=True))
    op.add_column("after_log", sa.Column("trace", sa.Text(), nullable=True))
