"""Schedules and runs of no-op tasks a second, through the public face, in one process."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from rota import Rota

__all__ = ["Rates", "asyncio_rate", "measure"]

CALLERS = 1_000
CONCURRENCY = 300


@dataclass(frozen=True)
class Rates:
    """Per second."""

    schedules: float
    touches: float
    runs: float


async def measure(store: str, tasks: int) -> Rates:
    """Schedule many tasks from many callers, touch them all again, then run them all."""
    app = Rota({"store": store, "spool": "off", "scheduler": {"executor": {"max_concurrent": CONCURRENCY}}})

    @app.on_activity(after="0s", timeout="1m")
    async def noop() -> None:
        pass

    async with app:
        await noop.touch(user_id="warm-up")
        await app.run_until_idle()
        schedules = await _rate(tasks, lambda number: noop.touch(user_id=f"u{number}"))
        touches = await _rate(tasks, lambda number: noop.touch(user_id=f"u{number}"))
        started = time.perf_counter()
        runs = await app.run_until_idle()
        seconds = time.perf_counter() - started
        counts = (await app.counts())["noop"]
        assert runs == tasks, f"{runs} of {tasks} ran"
        assert counts.succeeded_total == tasks + 1
        assert counts.pending == counts.running == 0
    return Rates(schedules, touches, runs / seconds)


async def _rate(count: int, call: object) -> float:
    assert callable(call)
    numbers = iter(range(count))

    async def caller() -> None:
        for number in numbers:
            await call(number)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(caller())
    return count / (time.perf_counter() - started)


async def asyncio_rate(count: int = 100_000) -> float:
    """The yardstick of this machine: asyncio tasks a second that do nothing, under a timeout."""

    async def nothing() -> None:
        async with asyncio.timeout(60):
            await asyncio.sleep(0)

    started = time.perf_counter()
    for _ in range(count // CONCURRENCY):
        await asyncio.gather(*(nothing() for _ in range(CONCURRENCY)))
    return count / (time.perf_counter() - started)
