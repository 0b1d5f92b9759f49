"""The rules of rota.testing.conformance.schedule, on every store."""

from rota.testing.conformance.schedule import TestSchedule, TestScheduleLimits, TestUpsert

__all__ = ["TestSchedule", "TestScheduleLimits", "TestUpsert"]
