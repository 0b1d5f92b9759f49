"""The rules of rota.testing.conformance.erase, on every store."""

from rota.testing.conformance.erase import TestErase, TestExport

__all__ = ["TestErase", "TestExport"]
