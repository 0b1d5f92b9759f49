"""What every peer's program shares: callers, a stop watch, and the line that it prints."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

CALLERS = 200
CONCURRENCY = 300
LIMIT = 60.0
"""Seconds after which a peer is given up on."""


def arguments() -> tuple[str, int]:
    """The Redis URL and how many jobs."""
    return sys.argv[1], int(sys.argv[2])


async def rate_of_calls(count: int, call: Callable[[int], Awaitable[object]]) -> float:
    numbers = iter(range(count))

    async def caller() -> None:
        for number in numbers:
            await call(number)

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return count / (time.perf_counter() - started)


class Done:
    """Counts the jobs that ran, and tells when it was enough."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._count = count
        self._started = time.perf_counter()
        self.event = asyncio.Event()
        self.rate = 0.0

    def start(self) -> None:
        self._started = time.perf_counter()

    def one(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.rate = self._count / (time.perf_counter() - self._started)
            self.event.set()

    async def wait(self) -> float:
        await asyncio.wait_for(self.event.wait(), LIMIT)
        return self.rate


def report(enqueue: float, run: float) -> None:
    print(json.dumps({"enqueue": enqueue, "run": run}))
