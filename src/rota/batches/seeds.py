"""The names of seed 002, each a thin face of what does the work: the scheduler of batches, its queue, its limiter.

    scheduler = BatchScheduler(app)
    batch_id = await scheduler.schedule_detail_batch("s1", "location_name", 50, {"mood": "norse"}, priority=5)

Their formulas are not the seed's: a priority ages, ids belong to one batch, and a limiter says how long to wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection

from rota.batches.batch import priority_of
from rota.batches.figures import waiting_by_priority
from rota.batches.part import batches_of
from rota.batches.split import base_size, split
from rota.clock import Instant, Millis
from rota.core.task_type import TaskType
from rota.part import HasHost
from rota.stores.base import Store

__all__ = ["Acquired", "BatchScheduler", "PriorityQueue", "RateLimiter"]


class BatchScheduler:
    """Asks for batches."""

    def __init__(self, app: HasHost) -> None:
        self._batches = batches_of(app)

    @staticmethod
    def calculate_batch_size(task_type: str, total_count: int) -> int:
        """How many items one call asks for, as a rule."""
        return base_size(task_type, total_count)

    @staticmethod
    def decompose_subtasks(task_type: str, count: int) -> list[int]:
        """How many items each subtask has, the first one first."""
        return split(count, base_size(task_type, count))

    async def schedule_detail_batch(
        self, session_id: str, task_type: str, count: int, style: Mapping[str, Any] | str = "", priority: int = 5
    ) -> str:
        """Ask for a batch; its id."""
        batch = await self._batches.start(task_type, count, style=style, session_id=session_id, priority=priority)
        return batch.id


class PriorityQueue:
    """What waits for its turn."""

    def __init__(self, app: HasHost) -> None:
        self._app = app

    @staticmethod
    def score(priority: int, enqueued_at: Instant, *, is_first: bool = True) -> Instant:
        """What comes first has the lowest: a level of priority is worth 30 seconds of waiting, so everything comes."""
        return enqueued_at - priority_of(priority, is_first=is_first) * TaskType(name="detail_batch").aging_ms

    async def sizes(self) -> dict[int, int]:
        """How many subtasks wait, by the priority of their batch."""
        database = await self._app.host.database()

        def read(connection: Connection) -> dict[int, int]:
            return waiting_by_priority(connection)

        return await database.read(read)


class Acquired(NamedTuple):
    """Whether it was granted, and how long to wait if not."""

    granted: bool
    retry_after_ms: Millis


class RateLimiter:
    """A token bucket over all instances, by the store's clock. One that was idle for an hour is full, not fuller."""

    def __init__(self, store: Store, name: str, *, rate: float, capacity: int) -> None:
        self._store = store
        self._name = name
        self._rate = rate
        self._capacity = capacity

    async def acquire(self, need: int = 1) -> Acquired:
        """Take so much, all or nothing."""
        taken = await self._store.take(self._name, need, rate=self._rate, burst=self._capacity)
        return Acquired(taken.granted == need, taken.retry_after_ms)
