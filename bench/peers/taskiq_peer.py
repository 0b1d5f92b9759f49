"""taskiq on Redis streams, with its scheduler beside its receiver for delayed jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from taskiq import TaskiqScheduler
from taskiq.api import run_receiver_task, run_scheduler_task
from taskiq_redis import ListRedisScheduleSource, RedisStreamBroker

from bench.peers.measured import measure
from bench.peers.peer import Peer, call_many
from bench.peers.tasks import cancelled_at_end


class TaskiqPeer(Peer):
    package: ClassVar = "taskiq"
    settings: ClassVar = (
        "RedisStreamBroker, `kiq` from 200 callers (it has no bulk call), `xread_count` 300, prefetch of 300, no result"
        " backend, hiredis; for delayed ones its scheduler beside it, with a"
        " ListRedisScheduleSource, every 100 ms (default 1 s)"
    )
    recovery: ClassVar = "`idle_timeout` of 10 minutes"

    async def open(self) -> None:
        self.broker = RedisStreamBroker(self.url, xread_count=300)
        self.source = ListRedisScheduleSource(self.url)

        @self.broker.task(task_name="job")
        async def job(due: float) -> None:
            await self.work.run(due)

        self.job = job
        await self.broker.startup()

    async def close(self) -> None:
        await self.broker.shutdown()

    async def enqueue(self, count: int) -> None:
        await call_many(count, lambda _: self.job.kiq(0.0))

    async def enqueue_at(self, dues: Sequence[float]) -> None:
        async def enqueue(number: int) -> None:
            due = dues[number]
            await self.job.schedule_by_time(self.source, datetime.fromtimestamp(due, UTC), due)

        await call_many(len(dues), enqueue)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        receiving = run_receiver_task(self.broker, max_async_tasks=self.concurrency, max_prefetch=self.concurrency)
        duties = [receiving, self._scheduling()] if self.case in ("latency", "burst") else [receiving]
        async with cancelled_at_end(*map(asyncio.create_task, duties)):
            yield

    def _scheduling(self) -> Coroutine[Any, Any, None]:
        often = timedelta(milliseconds=100)
        return run_scheduler_task(TaskiqScheduler(self.broker, [self.source]), interval=often, loop_interval=often)


if __name__ == "__main__":
    measure(TaskiqPeer)
