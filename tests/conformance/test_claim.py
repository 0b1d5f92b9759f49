"""The rules of rota.testing.conformance.claim, on every store."""

from rota.testing.conformance.claim import TestAbandon, TestClaim, TestTokens

__all__ = ["TestAbandon", "TestClaim", "TestTokens"]
