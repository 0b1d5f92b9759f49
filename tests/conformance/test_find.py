"""The rules of rota.testing.conformance.find, on every store."""

from rota.testing.conformance.find import TestFind, TestKeys, TestRuns

__all__ = ["TestFind", "TestKeys", "TestRuns"]
