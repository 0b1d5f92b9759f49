"""The rules of rota.testing.conformance.rank, on every store."""

from rota.testing.conformance.rank import TestRank, TestRankBetweenTypes

__all__ = ["TestRank", "TestRankBetweenTypes"]
