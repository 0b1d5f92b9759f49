"""What fires now, and what has fired."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Table, Text

from rota.database.tables.base import Name, RowId, metadata

__all__ = ["history", "states"]

states = Table(
    "alert_states",
    metadata,
    Column("rule", Name, primary_key=True),
    # What the rule looks at: a type, an instance, or '' for the whole.
    Column("subject", Name, primary_key=True),
    # pending (its condition holds, not yet long enough), firing, or ok.
    Column("state", Text, nullable=False),
    Column("since_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("value", Text, nullable=False),
)

history = Table(
    "alert_history",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("rule", Name, nullable=False),
    Column("subject", Name, nullable=False),
    # firing or resolved.
    Column("state", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("summary", Text, nullable=False),
    # JSON: what became of each delivery, by sink; NULL until it was tried.
    Column("delivered", Text),
    sqlite_autoincrement=True,
)
Index("ix_alert_history_rule", history.c.rule, history.c.subject, history.c.id)
