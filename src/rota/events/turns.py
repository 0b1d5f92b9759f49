"""Who may run: many at once, or one alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

__all__ = ["Turns"]


class Turns:
    """At most `slots` run at a time, in the order in which they came. Whoever wants to run alone takes all slots, one
    after the other: nobody who comes later is before it."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._free = asyncio.Semaphore(slots)
        self._one_alone = asyncio.Lock()
        self._running = 0

    @property
    def free(self) -> int:
        """How many more could run now."""
        return 0 if self._one_alone.locked() else self._slots - self._running

    async def __aenter__(self) -> None:
        """Run as one of many."""
        await self._free.acquire()
        self._running += 1

    async def __aexit__(self, *_: object) -> None:
        self._running -= 1
        self._free.release()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        async with self._one_alone:
            taken = 0
            try:
                for _ in range(self._slots):
                    await self._free.acquire()
                    taken += 1
                yield
            finally:
                for _ in range(taken):
                    self._free.release()
