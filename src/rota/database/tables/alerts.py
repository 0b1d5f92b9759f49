"""What fires now, and what has fired."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, SmallInteger, Table, Text

from rota.database.tables.base import Name, RowId, metadata

__all__ = ["history", "rules", "silences", "states"]

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
    # What was measured last, in words; NULL until a version that writes it has looked.
    Column("summary", Text),
    # 0: it fires in silence, so its sinks are to be told when that is over.
    Column("told", SmallInteger, nullable=False, server_default="1"),
)

# Every rule that is looked at, whether it fires or not, with the subject that is nearest to its limit.
rules = Table(
    "alert_rules",
    metadata,
    Column("rule", Name, primary_key=True),
    Column("kind", Text, nullable=False),
    # The one task type that it is about; NULL: each.
    Column("type", Name),
    # The threshold as people read it.
    Column("threshold", Text, nullable=False),
    Column("for_ms", BigInteger, nullable=False),
    # JSON: the names of its sinks.
    Column("sinks", Text, nullable=False),
    Column("subject", Name, nullable=False),
    Column("value", Text, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
)

silences = Table(
    "alert_silences",
    metadata,
    Column("rule", Name, primary_key=True),
    # '' for all that the rule looks at.
    Column("subject", Name, primary_key=True),
    Column("until_at", BigInteger, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
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
