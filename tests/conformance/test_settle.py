"""The rules of rota.testing.conformance.settle, on every store."""

from rota.testing.conformance.settle import TestComplete, TestFencing, TestLostReplies, TestRetry, TestSnoozeAndRelease

__all__ = ["TestComplete", "TestFencing", "TestLostReplies", "TestRetry", "TestSnoozeAndRelease"]
