"""The rules of rota.testing.conformance.overrides, on every store."""

from rota.testing.conformance.overrides import TestDraining, TestFrozen, TestLimits, TestOverrides

__all__ = ["TestDraining", "TestFrozen", "TestLimits", "TestOverrides"]
