"""The rules of rota.testing.conformance.rate, on every store."""

from rota.testing.conformance.rate import TestRateLimit, TestTake

__all__ = ["TestRateLimit", "TestTake"]
