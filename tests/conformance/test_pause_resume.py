"""The rules of rota.testing.conformance.pause_resume, on every store."""

from rota.testing.conformance.pause_resume import TestPause, TestResume

__all__ = ["TestPause", "TestResume"]
