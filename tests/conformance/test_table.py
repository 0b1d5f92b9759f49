"""The rules of rota.testing.conformance.table, on every store."""

from rota.testing.conformance.table import TestTable

__all__ = ["TestTable"]
