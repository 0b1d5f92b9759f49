"""The rules of rota.testing.conformance.series, on every store."""

from rota.testing.conformance.series import TestLimits, TestMisfire, TestNoSilentSkip, TestOverlap, TestSeries

__all__ = ["TestLimits", "TestMisfire", "TestNoSilentSkip", "TestOverlap", "TestSeries"]
