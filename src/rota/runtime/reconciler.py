"""Compares the store's indexes with its records now and then, and repairs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

from rota.clock import SECOND, Instant, Millis
from rota.logs import get_logger
from rota.runtime.duty import Duty
from rota.runtime.health import Pulse

__all__ = ["PERIOD_SECONDS", "Reconcilable", "Reconciler", "Repaired"]

PERIOD_SECONDS: Final = 600.0
PAGE_PAUSE: Final = 0.005
"""Seconds of rest after each page: a million records take minutes, and nobody notices."""

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

    async def reconcile(self, pause: float = 0.0) -> Repaired: ...


class Reconciler(Duty[Repaired | None]):
    """One pass in ten minutes, by whichever instance asks first."""

    name = "reconciler"

    def __init__(self, store: Reconcilable, *, pulse: Pulse, chance: Callable[[], float]) -> None:
        super().__init__(pulse, chance)
        self._store = store

    async def run_once(self, now: Instant | None = None) -> Repaired | None:
        """One pass; None if another instance has made it."""
        if not await self._store.take_turn(self.name, int(PERIOD_SECONDS * SECOND)):
            return None
        repaired = await self._store.reconcile(PAGE_PAUSE)
        if repaired.total:
            log.warning("indexes repaired", read=repaired.read, repaired=repaired.total, report=str(repaired))
        return repaired

    def pause_after(self, report: Repaired | None) -> float:
        # Instances that were started together drift apart.
        return PERIOD_SECONDS * (0.25 + 0.5 * self._chance())
