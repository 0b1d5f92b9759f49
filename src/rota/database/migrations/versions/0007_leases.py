"""Whose turn it is has a table of its own; alerts kept it in a row of their states that was nobody's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("name", _Name, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.execute("DELETE FROM alert_states WHERE rule = '' AND subject = ''")
