"""The rules of rota.testing.conformance.wait, on every store."""

from rota.testing.conformance.wait import TestOpenAndClose, TestWait

__all__ = ["TestOpenAndClose", "TestWait"]
