"""The rules of rota.testing.conformance.history, on every store."""

from rota.testing.conformance.history import TestHistory

__all__ = ["TestHistory"]
