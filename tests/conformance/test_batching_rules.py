"""The rules of rota.testing.conformance.batching_rules, on every store."""

from rota.testing.conformance.batching_rules import TestGroups

__all__ = ["TestGroups"]
