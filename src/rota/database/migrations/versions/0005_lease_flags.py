"""What is known of a lease: whether its run has begun, and whether it was prolonged after an outage."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    for name in ("renewed", "extended"):
        op.add_column("scheduled_tasks", sa.Column(name, sa.SmallInteger(), server_default="0", nullable=False))
