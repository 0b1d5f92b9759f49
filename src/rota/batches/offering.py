"""Subtasks are offered to the queue. The rows are there before: what is offered twice is one task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from rota.batches.accepting import NewSubtask
from rota.batches.batch import Batch, Subtask, priority_of
from rota.batches.limits import Limits
from rota.batches.names import DETAIL_BATCH
from rota.clock import Millis
from rota.core.task import Identity, NewTask
from rota.stores.base import Store

__all__ = ["Offering", "delay_of", "identities_of"]

HEAD_START_MS: Final = 100
"""What comes after the first subtask of a batch is due so much later: of several batches that are asked for at the same
moment, each has its first one with an agent before any has two."""
STEP_MS: Final = 25
"""And each of the others so much later than the one before it, so that each batch has a second one before any has
three; up to a second, which nobody notices in a batch that large."""
MOST_MS: Final = 1_000


def delay_of(index: int, round_: int) -> Millis:
    """When a subtask is due, after it was offered. Those of a later round have no neighbours to wait for."""
    return 0 if index == 0 or round_ else min(HEAD_START_MS + STEP_MS * (index - 1), MOST_MS)


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
        await store.schedule([self._task(batch, one) for one in subtasks])

    async def offer_again(self, store: Store, offers: Sequence[tuple[Batch, Subtask]]) -> None:
        """Those that nobody has offered yet, or that the queue has lost."""
        if offers:
            await store.schedule([self._task(batch, one) for batch, one in offers])

    def _task(self, batch: Batch, subtask: NewSubtask | Subtask) -> NewTask:
        is_first = subtask.index == 0 and subtask.round == 0
        return NewTask(
            task_type=DETAIL_BATCH,
            key=subtask.id,
            payload=msgspec.json.encode({"batch_id": batch.id}).decode(),
            delay_ms=delay_of(subtask.index, subtask.round),
            priority=priority_of(batch.priority, is_first=is_first),
            serial=batch.session_id,
            permits=self._per_session,
            cost=subtask.cost if self._most_cost is None else min(subtask.cost, self._most_cost),
            user_id=batch.user_id,
        )
