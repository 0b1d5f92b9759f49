"""The rules of rota.testing.conformance.run_details, on every store."""

from rota.testing.conformance.run_details import TestDueAt, TestRunDetails

__all__ = ["TestDueAt", "TestRunDetails"]
