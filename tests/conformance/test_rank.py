"""The rules of rota.testing.conformance.rank, on every store."""

from rota.testing.conformance.rank import TestRank

__all__ = ["TestRank"]
