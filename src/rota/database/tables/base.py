"""What all tables share: one metadata, and the types of their columns.

Instants are epoch milliseconds in BIGINT. Text that is sorted by has the collation "C" on PostgreSQL, so that both
databases, and Python, agree on what comes first. Flags are 0 and 1, so that the partial indexes read alike.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Text, text

__all__ = ["Name", "RowId", "metadata", "partial_index"]

metadata = MetaData(
    naming_convention={"ix": "ix_%(table_name)s_%(column_0_N_name)s", "pk": "pk_%(table_name)s"},
)

Name = Text().with_variant(Text(collation="C"), "postgresql")
RowId = BigInteger().with_variant(Integer, "sqlite")


def partial_index(name: str, where: str, *columns: Column[object]) -> Index:
    """An index that holds only the rows that its query looks for."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))
