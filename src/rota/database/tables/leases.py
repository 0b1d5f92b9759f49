"""Whose turn it is, where one instance of all is enough."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Table, Text

from rota.database.tables.base import Name, metadata

__all__ = ["leases"]

leases = Table(
    "leases",
    metadata,
    Column("name", Name, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until_at", BigInteger, nullable=False),
)
