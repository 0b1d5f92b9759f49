"""The rules of rota.testing.conformance.touch, on every store."""

from rota.testing.conformance.touch import TestActivityDuringARun, TestBreaker, TestCooldown, TestDebounce, TestTouch

__all__ = ["TestActivityDuringARun", "TestBreaker", "TestCooldown", "TestDebounce", "TestTouch"]
