"""How many questions a model bears at once, found out by asking.

As many as allowed at first. A server that throttles, or does not answer in time, is asked half as much; after as many
good answers as there are slots, one more. All that was under way when it was halved belongs to the same window: thirty
refusals of one burst halve it once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from rota.errors import InvalidConfig
from rota.llm import LlmTimeout, Throttled

__all__ = ["Concurrency"]


class Concurrency:
    """Slots for the calls of one event loop, given in the order in which they were asked for."""

    def __init__(self, most: int) -> None:
        if most < 1:
            raise InvalidConfig(f"{most} calls at once are none. Allow at least 1.")
        self.most = most
        self._limit = most
        self._in_use = 0
        self._throttled = 0
        self._window = 0
        self._good = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """How many may run at once now."""
        return self._limit

    @property
    def in_use(self) -> int:
        return self._in_use

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def throttled(self) -> int:
        """How many calls were throttled or ran out of time, ever."""
        return self._throttled

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None]:
        """Wait for a slot and have it while the call runs. What the call raises decides about the limit."""
        await self._acquire()
        window = self._window
        try:
            yield
        except (Throttled, LlmTimeout):
            self._throttled += 1
            if window == self._window:
                self._halve()
            raise
        else:
            if window == self._window:
                self._count_good()
        finally:
            self._in_use -= 1
            self._hand_on()

    def _halve(self) -> None:
        self._limit = max(self._limit // 2, 1)
        self._window += 1
        self._good = 0

    def _count_good(self) -> None:
        self._good += 1
        if self._good >= self._limit:
            self._limit = min(self._limit + 1, self.most)
            self._good = 0

    async def _acquire(self) -> None:
        if self._in_use < self._limit and not self._waiting:
            self._in_use += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # It came and nobody was there any more: the next one has it.
                self._in_use -= 1
            else:
                self._waiting.remove(turn)
            self._hand_on()
            raise

    def _hand_on(self) -> None:
        while self._waiting and self._in_use < self._limit:
            turn = self._waiting[0]
            if turn.done():  # its caller was cancelled, and takes it out itself
                return
            self._waiting.popleft()
            self._in_use += 1
            turn.set_result(None)
