"""saq: keyed jobs, one worker in the same loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from saq import Queue, Worker

from bench.peers.measured import measure
from bench.peers.peer import Peer, call_many
from bench.peers.tasks import cancelled_at_end


class SaqPeer(Peer):
    package: ClassVar = "saq"
    settings: ClassVar = "keyed `enqueue` from 200 callers (it has no bulk call), results not kept, hiredis"
    recovery: ClassVar = "never: a sweep every 60 s ends what is past its timeout of 10 s, and `retries` is 1"

    async def open(self) -> None:
        self.queue = Queue.from_url(f"{self.url}?max_connections=1000")  # a connection for each that waits
        await self.queue.connect()

    async def close(self) -> None:
        await self.queue.disconnect()

    async def enqueue(self, count: int) -> None:
        await call_many(count, lambda number: self.queue.enqueue("job", key=f"k{number}", due=0.0, ttl=-1))

    async def enqueue_again(self, count: int) -> None:
        await self.enqueue(count)

    async def enqueue_at(self, dues: Sequence[float]) -> None:
        async def enqueue(number: int) -> None:
            due = dues[number]
            await self.queue.enqueue("job", key=f"k{number}", due=due, ttl=-1, scheduled=due)

        await call_many(len(dues), enqueue)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        async def job(ctx: Any, *, due: float) -> None:
            await self.work.run(due)

        worker = Worker(self.queue, functions=[("job", job)], concurrency=self.concurrency)
        async with cancelled_at_end(asyncio.create_task(worker.start())):
            yield


if __name__ == "__main__":
    measure(SaqPeer)
