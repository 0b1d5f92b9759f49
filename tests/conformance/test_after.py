"""The rules of rota.testing.conformance.after, on every store."""

from rota.testing.conformance.after import TestAfter

__all__ = ["TestAfter"]
