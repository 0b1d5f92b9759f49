"""Subtasks are offered to the queue. The rows are there before: what is offered twice is one task."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rota.batches.accepting import NewSubtask
from rota.batches.batch import Batch, Subtask, priority_of
from rota.batches.limits import Limits
from rota.batches.names import DETAIL_BATCH
from rota.core.task import Identity, NewTask
from rota.stores.base import Store

__all__ = ["Offering", "identities_of"]


def identities_of(subtasks: Sequence[Subtask]) -> list[Identity]:
    """The tasks of subtasks."""
    return [Identity(DETAIL_BATCH, subtask.id) for subtask in subtasks]


class Offering:
    """Makes tasks of subtasks. `per_session` of one session run at a time, over all instances."""

    def __init__(self, limits: Limits, per_session: int) -> None:
        self._most_cost = None if limits.tokens is None else limits.tokens.burst
        self._per_session = per_session

    async def offer(self, store: Store, batch: Batch, subtasks: Sequence[NewSubtask]) -> None:
        """All of them in one call. What the store does not take now is offered again by the keeper."""
        await store.schedule([self._task(batch, one.id, one.cost, is_first=one.is_first) for one in subtasks])

    async def offer_again(self, store: Store, offers: Sequence[tuple[Batch, Subtask]]) -> None:
        """Those that nobody has offered yet, or that the queue has lost."""
        tasks = [
            self._task(batch, one.id, one.cost, is_first=one.index == 0 and one.round == 0) for batch, one in offers
        ]
        if tasks:
            await store.schedule(tasks)

    def _task(self, batch: Batch, subtask_id: str, cost: int, *, is_first: bool) -> NewTask:
        return NewTask(
            task_type=DETAIL_BATCH,
            key=subtask_id,
            payload=msgspec.json.encode({"batch_id": batch.id}).decode(),
            priority=priority_of(batch.priority, is_first=is_first),
            serial=batch.session_id,
            permits=self._per_session,
            cost=cost if self._most_cost is None else min(cost, self._most_cost),
            user_id=batch.user_id,
        )
