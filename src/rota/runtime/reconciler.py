"""Compares the store's indexes with its records now and then, and repairs them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, runtime_checkable

from rota.clock import SECOND, Clock, Instant, Millis
from rota.logs import get_logger
from rota.runtime.duty import Duty
from rota.runtime.health import Pulse

__all__ = ["PERIOD_SECONDS", "Reconcilable", "Reconciler", "Repaired", "rest_after"]

PERIOD_SECONDS: Final = 600.0
HARM_SECONDS: Final = 10.0
"""No more than one pass in this time because of what was harmed, over all instances: a fault that goes on and on must
not be answered by walks over everything without a pause."""
RESTS: Final = 9
"""How many times as long as a page took it rests after it, so that a tenth of one core is all that anybody notices."""
SHORTEST_REST: Final = 0.005
LONGEST_REST: Final = 0.3
"""Seconds: with this after each page a million records still take only minutes."""

log = get_logger("rota.reconciler")


class Repaired(Protocol):
    """What one pass has read and put right."""

    @property
    def read(self) -> int: ...

    @property
    def total(self) -> int: ...


@runtime_checkable
class Reconcilable(Protocol):
    """A store whose indexes may differ from its records, because something outside has harmed them."""

    async def take_turn(self, duty: str, for_ms: Millis) -> bool: ...

    async def reconcile(self, rest: Callable[[], Awaitable[None]]) -> Repaired:
        """One pass over everything; it rests after each page."""
        ...

    def when_harmed(self, call: Callable[[], None]) -> None:
        """Have `call` called, on any thread, when a step has stopped half-way."""
        ...


class Reconciler(Duty[Repaired | None]):
    """One pass in ten minutes, by whichever instance asks first; and one at once after a step that stopped half-way."""

    name = "reconciler"

    def __init__(self, store: Reconcilable, *, clock: Clock, pulse: Pulse, chance: Callable[[], float]) -> None:
        super().__init__(pulse, chance)
        self._store = store
        self._clock = clock
        self._rested_at = 0.0
        self._is_harmed = False

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self._store.when_harmed(lambda: _on(loop, self.harmed))
        try:
            await super().run()
        finally:
            self._store.when_harmed(_nobody)

    def harmed(self) -> None:
        """Something was written half-way: make a pass now."""
        self._is_harmed = True
        self.wake()

    async def run_once(self, now: Instant | None = None) -> Repaired | None:
        """One pass; None if another instance has made it."""
        if not await self._has_turn():
            return None
        # What is harmed from here on is for the next pass: this one may be past it already.
        self._is_harmed = False
        self._rested_at = self._clock.monotonic()
        try:
            repaired = await self._store.reconcile(self._rest)
        except Exception:
            # Whoever took the turn owes the pass.
            self._is_harmed = True
            raise
        if repaired.total:
            log.warning("indexes repaired", read=repaired.read, repaired=repaired.total, report=str(repaired))
        return repaired

    async def _rest(self) -> None:
        worked = self._clock.monotonic() - self._rested_at
        await asyncio.sleep(rest_after(worked))
        self._rested_at = self._clock.monotonic()

    async def _has_turn(self) -> bool:
        if self._is_harmed:
            return await self._store.take_turn(f"{self.name}-after-harm", int(HARM_SECONDS * SECOND))
        return await self._store.take_turn(self.name, int(PERIOD_SECONDS * SECOND))

    def pause_after(self, report: Repaired | None) -> float:
        if self._is_harmed:
            return HARM_SECONDS * (0.5 + 0.5 * self._chance())
        # Instances that were started together drift apart.
        return PERIOD_SECONDS * (0.25 + 0.5 * self._chance())


def rest_after(worked: float) -> float:
    """Seconds of rest after so many seconds of work."""
    return min(max(SHORTEST_REST, RESTS * worked), LONGEST_REST)


def _on(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)


def _nobody() -> None:
    """The duty has ended."""
