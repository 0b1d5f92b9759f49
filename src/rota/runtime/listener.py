"""Listens to the store and wakes the dispatcher when something may be due earlier than was known."""

from __future__ import annotations

from collections.abc import Callable

from rota.clock import SECOND, Instant, Millis
from rota.runtime.duty import Duty, DutyContext, with_timeout

__all__ = ["Listener"]

WAIT_MS: Millis = 2_000
"""One wait is no longer than this, so that a connection that died in silence is noticed."""


class Listener(Duty[bool]):
    """Turns the store's `wait` into wake-ups. The report says whether there was one."""

    name = "listener"

    def __init__(self, context: DutyContext, on_poke: Callable[[], None]) -> None:
        super().__init__(context.pulse, context.chance)
        self._store = context.store
        self._on_poke = on_poke
        self._deadline = WAIT_MS / SECOND + context.call_timeout
        self.patience = self._deadline + WAIT_MS / SECOND

    async def run_once(self, now: Instant | None = None) -> bool:
        poked = await with_timeout(self._deadline, "wait", self._store.wait(WAIT_MS))
        if poked:
            self._on_poke()
        return poked

    def pause_after(self, report: bool) -> float:
        return 0.0
