"""The application that is measured: one type that activity makes due, and one that is due at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bench.peers.peer import Work, groups
from rota import Rota, TaskHandle
from rota.clock import from_datetime
from rota.core.task import NewTask
from rota.group_commit import MAX_GROUP

__all__ = ["CALLERS", "MeasuredApp", "measured_app"]

CALLERS = 1_000
"""Touches come one by one from many users; the store makes groups of them."""


@dataclass(frozen=True)
class MeasuredApp:
    app: Rota
    upkeep: TaskHandle[..., Any]
    timed: TaskHandle[..., Any]

    async def schedule_at(self, dues: Sequence[float]) -> None:
        """One task for each of these times, in groups, as whoever makes many at once does."""
        store = await self.app.store()
        for group in groups(len(dues), MAX_GROUP):
            await store.schedule([self._timed_task(number, dues[number]) for number in group])

    def _timed_task(self, number: int, due: float) -> NewTask:
        at = from_datetime(datetime.fromtimestamp(due, UTC))
        return NewTask(task_type=self.timed.name, key=f"k{number}", scheduled_at=at, payload=repr(due))

    async def succeeded_at(self, count: int) -> float:
        """When the store said that so many tasks have succeeded: later than the handlers are done, by the settling."""
        while await self._succeeded() < count:  # noqa: ASYNC110 - other processes may be at work
            await asyncio.sleep(0.02)
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
