"""The rules of rota.testing.conformance.standing, on every store."""

from rota.testing.conformance.standing import TestHeads, TestStanding

__all__ = ["TestHeads", "TestStanding"]
