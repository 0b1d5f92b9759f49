"""The deadlines of all runs, with one timer: thousands of runs a second begin and end long before theirs.

A run carries its own deadline, so setting one and taking it back are assignments. The timer goes off at the nearest one
that it has heard of, and looks at all runs then; most of them have ended by that time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection

from rota.runtime.running import Running

__all__ = ["Deadlines"]

_SHORTEST_PAUSE = 0.01
"""Seconds between two looks: so late a deadline may be, however many of them come close together."""


class Deadlines:
    """Tells `overdue` of each of the runs whose deadline has passed, once for each deadline that it was given."""

    def __init__(self, runs: Collection[Running], overdue: Callable[[Running], None]) -> None:
        self._runs = runs
        self._overdue = overdue
        self._timer: asyncio.TimerHandle | None = None
        self._next_look = math.inf

    def set(self, running: Running, seconds: float) -> None:
        """So many seconds from now, whatever was set before."""
        loop = asyncio.get_running_loop()
        running.deadline = deadline = loop.time() + seconds
        if deadline < self._next_look:
            self._look_at(deadline, loop)

    def close(self) -> None:
        """Look no more, unless another deadline is set."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._next_look = math.inf

    def _look_at(self, when: float, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        self._next_look = when
        self._timer = loop.call_at(when, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        now = loop.time()
        for running in [running for running in self._runs if running.deadline <= now]:
            running.deadline = math.inf
            self._overdue(running)
        nearest = min((running.deadline for running in self._runs), default=math.inf)
        if nearest < math.inf:
            self._look_at(max(nearest, now + _SHORTEST_PAUSE), loop)
