"""How often a schedule has run, also by hand and also at its end."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("scheduled_tasks", sa.Column("times_run", sa.BigInteger(), server_default="0", nullable=False))
