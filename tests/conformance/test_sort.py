"""The rules of rota.testing.conformance.sort, on every store."""

from rota.testing.conformance.sort import TestSortedRuns, TestSortedTasks, TestTimeRange

__all__ = ["TestSortedRuns", "TestSortedTasks", "TestTimeRange"]
