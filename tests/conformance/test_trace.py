"""The rules of rota.testing.conformance.trace, on every store."""

from rota.testing.conformance.trace import TestTrace

__all__ = ["TestTrace"]
