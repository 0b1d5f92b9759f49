"""Telling the scheduler that a user was active, without letting anybody wait for it.

Owners are noted in a dictionary and touched in the background, all configured types together. An owner who is noted
again while they wait is touched once. What a process did not get to before it died is found by `statistics_update`,
which looks for owners whose upkeep is overdue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Final

from rota.logs import get_logger
from rota.memory.context import Owner

__all__ = ["Touch", "Touches"]

Touch = Callable[[str, str, str, str], Awaitable[object]]
"""(task_type, user_id, device_id, agent_id): `Rota.touch`, for one."""

TOGETHER: Final = 50
"""Owners that are touched at once."""
MAX_WAITING: Final = 100_000
"""Owners that may wait; past it they are left to the look for overdue ones, and the log says so."""

log = get_logger("rota.memory")


class Touches:
    """The touches that are still to be made, and the task that makes them."""

    def __init__(self, touch: Touch, task_types: Callable[[], Sequence[str]]) -> None:
        self._touch = touch
        self._task_types = task_types
        self._waiting: dict[Owner, None] = {}
        self._pump: asyncio.Task[None] | None = None
        self.failed = 0
        """Touches that ended in an error since the start."""

    def note(self, owner: Owner) -> None:
        """An owner was active. Returns at once."""
        if len(self._waiting) >= MAX_WAITING:
            self.failed += 1
            log.warning("memory_touch_dropped", user_id=owner.user_id, waiting=len(self._waiting))
            return
        self._waiting[owner] = None
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run(), name="rota-memory-touches")

    async def drain(self) -> None:
        """Wait until everything noted so far is touched. A service that stops does so first."""
        while self._pump is not None and not self._pump.done():
            await asyncio.wait([self._pump])

    async def _run(self) -> None:
        while self._waiting:
            owners = list(islice(self._waiting, TOGETHER))
            for owner in owners:
                del self._waiting[owner]
            pairs = [(task_type, owner) for owner in owners for task_type in self._task_types()]
            calls = [
                self._touch(task_type, owner.user_id, owner.device_id, owner.agent_id) for task_type, owner in pairs
            ]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            for (task_type, owner), answer in zip(pairs, answers, strict=True):
                if isinstance(answer, BaseException):
                    self.failed += 1
                    log.warning("memory_touch_failed", task_type=task_type, user_id=owner.user_id, error=str(answer))
