"""The rules of rota.testing.conformance.update, on every store."""

from rota.testing.conformance.update import TestUpdate, TestUpdateDuringARun

__all__ = ["TestUpdate", "TestUpdateDuringARun"]
