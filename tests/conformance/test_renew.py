"""The rules of rota.testing.conformance.renew, on every store."""

from rota.testing.conformance.renew import TestRenew

__all__ = ["TestRenew"]
