"""The rules of rota.testing.conformance.failures, on every store."""

from rota.testing.conformance.failures import TestFailures

__all__ = ["TestFailures"]
