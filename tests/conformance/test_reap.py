"""The rules of rota.testing.conformance.reap, on every store."""

from rota.testing.conformance.reap import TestOutage, TestReap, TestTick

__all__ = ["TestOutage", "TestReap", "TestTick"]
