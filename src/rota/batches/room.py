"""How many more subtasks the queue takes. A batch for which there is no room is refused before anything is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from rota.batches.names import DETAIL_BATCH
from rota.batches.request import BatchesFull
from rota.clock import Clock
from rota.group_commit import GroupCommit
from rota.stores.base import Store

__all__ = ["Room"]

FRESH_SECONDS: Final = 0.1
"""How long it is believed what the queue was seen to have room for."""
FULL_SECONDS: Final = 30.0
"""When to ask again where it is full."""


class Room:
    """One look for all who ask at the same time. What this process offers is counted at once, what others have offered
    since is seen by the next look."""

    def __init__(self, open_store: Callable[[], Awaitable[Store]], clock: Clock) -> None:
        self._open_store = open_store
        self._clock = clock
        self._left = 0
        self._fresh_until = clock.monotonic()
        self._looks: GroupCommit[None, None] = GroupCommit(self._look, lambda _: 0)

    async def check(self) -> None:
        """`BatchesFull` if there is none."""
        if self._left <= 0 or self._clock.monotonic() >= self._fresh_until:
            await self._looks.submit([None])

    def use(self, subtasks: int) -> None:
        """So many were offered."""
        self._left -= subtasks

    async def close(self) -> None:
        await self._looks.drain()

    async def _look(self, asking: list[None]) -> list[None]:
        store = await self._open_store()
        counts = (await store.counts()).get(DETAIL_BATCH)
        pending = 0 if counts is None else counts.pending
        # As the store has it, where an operator may have set another: also in a process that serves none.
        limits = [one.effective.max_pending for one in await store.list_types() if one.task_type.name == DETAIL_BATCH]
        self._left = limits[0] - pending if limits else 0
        self._fresh_until = self._clock.monotonic() + FRESH_SECONDS
        if limits and self._left <= 0:
            raise BatchesFull(
                f"{pending:,} subtasks wait already; {limits[0]:,} is the limit"
                f" (tasks.{DETAIL_BATCH}.max_pending). Ask again in a while.",
                FULL_SECONDS,
            )
        return asking
