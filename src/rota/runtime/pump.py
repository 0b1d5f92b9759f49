"""Hands completions to the types that come after them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rota.clock import Instant
from rota.core.task_type import TaskType
from rota.runtime.duty import Duty, DutyContext, with_timeout

__all__ = ["PERIOD_SECONDS", "Pump"]

PERIOD_SECONDS: Final = 1.0
PAGE: Final = 200


class Pump(Duty[int]):
    """Pumps every second, and at once when a run completed that others wait for."""

    name = "pump"

    def __init__(self, context: DutyContext, types: Iterable[TaskType]) -> None:
        super().__init__(context.pulse, context.chance)
        self._store = context.store
        self._call_timeout = context.call_timeout
        self.follow(types)

    def follow(self, types: Iterable[TaskType]) -> None:
        """These are the types from now on."""
        self.followed = frozenset(name for task_type in types for name in task_type.after)
        """The types that another one comes after."""
        self.wake()

    async def run_once(self, now: Instant | None = None) -> int:
        """Hand on everything that waits; how many completions that were."""
        total = 0
        while self.followed:
            handed = await with_timeout(self._call_timeout, "pump", self._store.pump(PAGE, now=now))
            total += handed
            if handed < PAGE:
                break
        return total

    def pause_after(self, report: int) -> float:
        return PERIOD_SECONDS
