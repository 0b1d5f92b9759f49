"""The rules of rota.testing.conformance.queue_position, on every store."""

from rota.testing.conformance.queue_position import TestNextDueByType, TestQueuePosition

__all__ = ["TestNextDueByType", "TestQueuePosition"]
