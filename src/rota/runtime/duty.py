"""What all duties of a worker share: a loop that never dies, and a limit on how long the store may take to answer.

`run_once` makes one pass and returns a report; `run` repeats it. Whatever a pass raises is logged, turns the health
red, and is followed by a pause that grows, with jitter, so that a thousand instances do not come back in the same
instant.

A worker has duties of its own, and others can be added to it (`Worker(duties=...)`): each is made from a `DutyContext`
and lives like the worker's own ones, which are made from it, too.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rota.clock import Clock, Instant
from rota.errors import StoreUnavailable
from rota.logs import get_logger
from rota.runtime.health import Pulse
from rota.stores.base import Store

__all__ = ["Duty", "DutyContext", "MakeDuties", "back_off_seconds", "note_failure", "with_timeout"]

Report = TypeVar("Report")
T = TypeVar("T")

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0

log = get_logger("rota.runtime")


def back_off_seconds(failures: int, chance: float) -> float:
    """The pause after so many failures in a row: doubling up to 2 s, give or take a half."""
    assert failures >= 1
    pause = min(_FIRST_PAUSE * 2 ** min(failures - 1, 16), _LONGEST_PAUSE)
    return pause * (0.5 + chance)


@dataclass(frozen=True, slots=True)
class DutyContext:
    """What a worker hands to a duty, also to one that is added to it. The store is open, and stays open."""

    store: Store
    instance: str
    clock: Clock
    pulse: Pulse
    chance: Callable[[], float]
    call_timeout: float
    runs_handlers: bool = True
    """Whether this process does work. A service of pages alone keeps things in order, and leaves the work to others."""


class Duty(ABC, Generic[Report]):
    """One duty: a pass, and the pause after it."""

    name: str
    patience: float | None = None
    """Seconds without a good pass after which the health turns red; None if only a failure does that."""

    def __init__(self, pulse: Pulse, chance: Callable[[], float]) -> None:
        self._pulse = pulse
        self._chance = chance
        self._woken = asyncio.Event()
        self._stopped = asyncio.Event()
        self.is_stopping = False

    @abstractmethod
    async def run_once(self, now: Instant | None = None) -> Report:
        """One pass. `now` is None in production: the store's clock rules."""

    @abstractmethod
    def pause_after(self, report: Report) -> float:
        """Seconds until the next pass, unless somebody wakes it."""

    def wake(self) -> None:
        """Make the next pass at once."""
        self._woken.set()

    def stop(self) -> None:
        """End after the pass that is under way."""
        self.is_stopping = True
        self._stopped.set()
        self._woken.set()

    async def close(self) -> None:
        """Last words of a duty that was added to a worker, after its last pass; not waited for very long."""

    async def run(self) -> None:
        """Pass after pass, until stopped."""
        failures = 0
        while not self.is_stopping:
            self._woken.clear()
            try:
                pause = self.pause_after(await self.run_once())
            except (Exception, asyncio.CancelledError) as error:
                if _is_cancelled(error):
                    raise
                failures += 1
                note_failure(self._pulse, self.name, error, failures)
                # A wake-up does not shorten this pause: whoever pokes does not know that the store is away.
                await _first(self._stopped, back_off_seconds(failures, self._chance()))
                continue
            failures = 0
            self._pulse.good(self.name)
            await _first(self._woken, pause)


MakeDuties = Callable[[DutyContext], Sequence[Duty[Any]]]


def note_failure(pulse: Pulse, duty: str, error: BaseException, failures: int) -> None:
    """A pass has failed, so many in a row by now: the health turns red, and the log says why."""
    pulse.bad(duty, error)
    if not isinstance(error, StoreUnavailable):
        log.error("duty failed", duty=duty, failures=failures, exc_info=error)
    elif failures & (failures - 1) == 0:
        # An outage of hours is worth a line now and then, not two a second.
        log.warning("store unavailable", duty=duty, failures=failures, error=str(error))


async def with_timeout(seconds: float, verb: str, call: Awaitable[T]) -> T:
    """The answer of a store call. None in time is `StoreUnavailable`, like a store that cannot be reached."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        raise StoreUnavailable(
            f"The store did not answer {verb!r} within {seconds:g} s. It is asked again; check that it is up."
        ) from None


def _is_cancelled(error: BaseException) -> bool:
    """Whether somebody wants the loop to end: a pass may also stumble over a call of its own that was cancelled."""
    job = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (job is None or job.cancelling() > 0)


async def _first(event: asyncio.Event, seconds: float) -> None:
    """Until the event, or for so many seconds."""
    if event.is_set():
        return
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
