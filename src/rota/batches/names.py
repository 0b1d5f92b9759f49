"""What batches are called: their task type, their events, their consumers."""

from __future__ import annotations

import re
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
    "batch_of_task",
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

_TASK: Final = re.compile(r"([A-Za-z0-9_-]+):[0-9]+:[0-9]+")


def batch_of_task(key: str) -> str | None:
    """The batch that a subtask's task belongs to, by its key; None if somebody else has made a task of that type."""
    found = _TASK.fullmatch(key)
    return None if found is None else found[1]
