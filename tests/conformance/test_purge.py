"""The rules of rota.testing.conformance.purge, on every store."""

from rota.testing.conformance.purge import TestEnd, TestPrune, TestPurge

__all__ = ["TestEnd", "TestPrune", "TestPurge"]
