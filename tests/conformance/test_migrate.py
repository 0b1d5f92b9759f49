"""The rules of rota.testing.conformance.migrate, on every store."""

from rota.testing.conformance.migrate import TestExport, TestRestore

__all__ = ["TestExport", "TestRestore"]
