"""Hands completions to the types that come after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from rota.call_timeout import seconds_of
from rota.clock import Instant
from rota.core.task_type import TaskType
from rota.runtime.duty import Duty, with_timeout
from rota.runtime.health import Pulse
from rota.stores.base import Store

__all__ = ["PERIOD_SECONDS", "Pump"]

PERIOD_SECONDS: Final = 1.0
PAGE: Final = 200


class Pump(Duty[int]):
    """Pumps every second, and at once when a run completed that others wait for."""

    name = "pump"

    def __init__(
        self,
        store: Store,
        types: Iterable[TaskType],
        *,
        pulse: Pulse,
        chance: Callable[[], float],
        call_timeout: float | None = None,
    ) -> None:
        super().__init__(pulse, chance)
        self._store = store
        self._call_timeout = seconds_of(call_timeout)
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
