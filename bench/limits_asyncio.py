"""The limit beside all figures: what the event loop alone does, with no queue at all."""

from __future__ import annotations

import asyncio
import time

__all__ = ["asyncio_rate", "bare_task_rate"]

CONCURRENCY = 300


async def asyncio_rate(count: int = 100_000) -> float:
    """The yardstick of this machine: asyncio tasks a second that do nothing, under a timeout."""

    async def nothing() -> None:
        async with asyncio.timeout(60):
            await asyncio.sleep(0)

    started = time.perf_counter()
    for _ in range(count // CONCURRENCY):
        await asyncio.gather(*(nothing() for _ in range(CONCURRENCY)))
    return count / (time.perf_counter() - started)


async def bare_task_rate(count: int = 300_000) -> float:
    """Tasks a second that are created and end, 300 at a time, and nothing else."""

    async def nothing() -> None:
        pass

    started = time.perf_counter()
    for _ in range(count // CONCURRENCY):
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(nothing())
    return count / (time.perf_counter() - started)
