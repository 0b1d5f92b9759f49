"""What batches are called: their task type, their events, their consumers."""

from __future__ import annotations

from typing import Final

__all__ = [
    "AGGREGATE",
    "COLLECTOR",
    "CREATED",
    "DETAIL_BATCH",
    "FAILED",
    "FINISHED",
    "PART",
    "REQUESTED",
    "SUBMITTED",
]

PART: Final = "batches"
DETAIL_BATCH: Final = "detail_batch"
"""The task type of a subtask."""
COLLECTOR: Final = "batch-collector"
AGGREGATE: Final = "GenesisSession"
SUBMITTED: Final = "Genesis.Session.DetailBatchSubmitted"
REQUESTED: Final = "Genesis.Session.DetailBatchGenerationRequested"
CREATED: Final = "Genesis.Session.DetailBatchCreated"
FAILED: Final = "Genesis.Session.DetailBatchFailed"
FINISHED: Final = "Genesis.Session.DetailBatchFinished"
