"""The rules of rota.testing.conformance.cancel, on every store."""

from rota.testing.conformance.cancel import TestCancel

__all__ = ["TestCancel"]
