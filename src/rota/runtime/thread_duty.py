"""A duty on a thread of its own: what must go on while a handler blocks the event loop.

`run_once` makes one pass on whatever thread calls it and returns a report; `start` repeats it beside the loop. Like any
duty it never dies: whatever a pass raises is logged, turns the health red, and is followed by a pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from rota.clock import Instant
from rota.runtime.duty import note_failure
from rota.runtime.health import Pulse

__all__ = ["ThreadDuty", "call_on"]

Report = TypeVar("Report")


class ThreadDuty(ABC, Generic[Report]):
    """One duty beside the event loop: a pass, and the pause after it."""

    name: str
    patience: float | None = None
    """Seconds without a good pass after which the health turns red."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._poked = threading.Event()
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None

    @abstractmethod
    def run_once(self, now: Instant | None = None) -> Report:
        """One pass, on any thread. `now` is None in production: the store's clock rules."""

    @abstractmethod
    def pause(self, failures: int) -> float:
        """Seconds until the next pass after so many failures in a row, unless somebody pokes."""

    # --- coming and going ---

    def start(self) -> None:
        """Pass after pass from now on, beside the event loop that runs now. Starting twice is harmless."""
        if self._ended is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._stopping = False
        arguments = (self._loop, self._ended)
        threading.Thread(target=self._work, args=arguments, name=f"rota-{self.name}", daemon=True).start()

    async def stop(self) -> None:
        """No more passes. Waits for the one under way, which is bounded by the store's deadline."""
        self._stopping = True
        self._poked.set()
        if self._ended is not None:
            await self._ended.wait()
        self._loop = self._ended = None

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    def poke(self) -> None:
        """Make the next pass at once. Any thread."""
        self._poked.set()

    async def pass_once(self) -> Report:
        """One pass now. The event loop goes on meanwhile, and is told as it is while the thread runs."""
        self._loop = asyncio.get_running_loop()
        return await asyncio.to_thread(self.run_once)

    # --- on the thread ---

    def _work(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
        failures = 0
        while not self._stopping:
            failures = 0 if self._pass_safely(failures) else failures + 1
            self._poked.wait(self.pause(failures))
            self._poked.clear()
        call_on(loop, ended.set)

    def _pass_safely(self, failures: int) -> bool:
        try:
            self.run_once()
        except Exception as error:
            note_failure(self._pulse, self.name, error, failures + 1)
            return False
        self._pulse.good(self.name)
        return True

    def _on_loop(self, function: Callable[..., object], *arguments: object) -> None:
        """Have the event loop call it, where there is one."""
        if self._loop is None:
            function(*arguments)
        else:
            call_on(self._loop, function, *arguments)


def call_on(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> None:
    """Have the loop call it; a loop that was closed meanwhile needs no calls any more."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)
