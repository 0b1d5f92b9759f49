"""The rules of rota.testing.conformance.types, on every store."""

from rota.testing.conformance.types import TestTypes

__all__ = ["TestTypes"]
