"""The rules of rota.testing.conformance.counts, on every store."""

from rota.testing.conformance.counts import TestCounts

__all__ = ["TestCounts"]
