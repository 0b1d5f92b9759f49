"""The rules of alerts as they stand, and who wants silence of which."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("alert_states", sa.Column("summary", sa.Text(), nullable=True))
    op.add_column("alert_states", sa.Column("told", sa.SmallInteger(), server_default="1", nullable=False))
    op.create_table(
        "alert_rules",
        sa.Column("rule", _Name, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("type", _Name, nullable=True),
        sa.Column("threshold", sa.Text(), nullable=False),
        sa.Column("for_ms", sa.BigInteger(), nullable=False),
        sa.Column("sinks", sa.Text(), nullable=False),
        sa.Column("subject", _Name, nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("rule", name="pk_alert_rules"),
    )
    op.create_table(
        "alert_silences",
        sa.Column("rule", _Name, nullable=False),
        sa.Column("subject", _Name, nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("rule", "subject", name="pk_alert_silences"),
    )
