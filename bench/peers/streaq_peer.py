"""streaq: many jobs in one pipeline, one worker in the same loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import ClassVar

from streaq import Worker

from bench.peers.measured import measure
from bench.peers.peer import Peer, groups
from bench.peers.tasks import cancelled_at_end


class StreaqPeer(Peer):
    package: ClassVar = "streaq"
    settings: ClassVar = "`enqueue_many` of 500, new ids, results not kept (`ttl` 0)"
    recovery: ClassVar = "`idle_timeout` of 60 s"

    async def open(self) -> None:
        self.worker = Worker(redis_url=self.url, concurrency=self.concurrency, handle_signals=False)

        @self.worker.task(ttl=0)
        async def job(due: float) -> None:
            await self.work.run(due)

        self.job = job

    async def enqueue(self, count: int) -> None:
        async with self.worker:
            for group in groups(count):
                await self.worker.enqueue_many([self.job.enqueue(0.0) for _ in group])

    async def enqueue_at(self, dues: Sequence[float]) -> None:
        for group in groups(len(dues)):
            timed = [(dues[number], datetime.fromtimestamp(dues[number], UTC)) for number in group]
            await self.worker.enqueue_many([self.job.enqueue(due).start(schedule=at) for due, at in timed])

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        async with cancelled_at_end(asyncio.create_task(self.worker.run_async())):
            yield


if __name__ == "__main__":
    measure(StreaqPeer)
