"""The rules of rota.testing.conformance.series, on every store."""

from rota.testing.conformance.series import (
    TestByHand,
    TestEdited,
    TestLimits,
    TestMisfire,
    TestNoSilentSkip,
    TestOverlap,
    TestSeries,
)

__all__ = ["TestByHand", "TestEdited", "TestLimits", "TestMisfire", "TestNoSilentSkip", "TestOverlap", "TestSeries"]
