"""The rules of rota.testing.conformance.rate, on every store."""

from rota.testing.conformance.rate import TestOwing, TestRateLimit, TestStartLimit, TestTake

__all__ = ["TestOwing", "TestRateLimit", "TestStartLimit", "TestTake"]
