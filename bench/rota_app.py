"""The application that is measured: one type that activity makes due, and one that is due at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bench.peers.peer import Work, call_many
from rota import Rota, TaskHandle

__all__ = ["CALLERS", "MeasuredApp", "measured_app"]

CALLERS = 1_000
"""Touches come one by one from many users; the store makes groups of them."""


@dataclass(frozen=True)
class MeasuredApp:
    app: Rota
    upkeep: TaskHandle[..., Any]
    timed: TaskHandle[..., Any]

    async def schedule_at(self, dues: Sequence[float]) -> None:
        """One task for each of these times."""

        async def schedule(number: int) -> None:
            due = dues[number]
            await self.timed.schedule(due, key=f"k{number}", at=datetime.fromtimestamp(due, UTC))

        await call_many(len(dues), schedule, CALLERS)

    async def succeeded_at(self, count: int) -> float:
        """When the store said that so many tasks have succeeded: later than the handlers are done, by the settling."""
        while await self._succeeded() < count:  # noqa: ASYNC110 - other processes may be at work
            await asyncio.sleep(0.005)
        return time.time()

    async def _succeeded(self) -> int:
        return sum(one.succeeded_total for one in (await self.app.counts()).values())


def measured_app(url: str, work: Work, concurrency: int) -> MeasuredApp:
    """Not connected yet. As people run it: no promise is switched off for speed."""
    executor = {"max_concurrent": concurrency}
    app = Rota({"store": url, "spool": "off", "scheduler": {"executor": executor}})

    @app.on_activity(after="0s", timeout="1m")
    async def upkeep(user_id: str) -> None:
        await work.run(0.0)

    @app.task(timeout="1m")
    async def timed(payload: float) -> None:
        await work.run(payload)

    return MeasuredApp(app, upkeep, timed)
