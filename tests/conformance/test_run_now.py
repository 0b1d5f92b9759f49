"""The rules of rota.testing.conformance.run_now, on every store."""

from rota.testing.conformance.run_now import TestRunNow

__all__ = ["TestRunNow"]
