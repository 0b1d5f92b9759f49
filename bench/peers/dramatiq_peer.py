"""dramatiq on Redis: threads in the same process."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.measured import measure
from bench.peers.peer import Peer


class DramatiqPeer(Peer):
    package: ClassVar = "dramatiq"
    settings: ClassVar = (
        "one `send` after another (it has no bulk call), 8 threads as it comes, 100 for sleepers, hiredis"
    )
    recovery: ClassVar = "`heartbeat_timeout` of 60 s, then when a worker next does maintenance"
    no_op_concurrency: ClassVar = 8

    async def open(self) -> None:
        self.broker = RedisBroker(url=self.url)
        dramatiq.set_broker(self.broker)
        self.job = dramatiq.actor(self.work.run_in_thread, actor_name="job", broker=self.broker)

    async def close(self) -> None:
        self.broker.close()

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            self.job.send(0.0)

    async def enqueue_at(self, dues: Sequence[float]) -> None:
        for due in dues:
            self.job.send_with_options(args=(due,), delay=round((due - time.time()) * 1_000))

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        worker = dramatiq.Worker(self.broker, worker_threads=self.concurrency)
        worker.start()
        try:
            yield
        finally:
            worker.stop()


if __name__ == "__main__":
    measure(DramatiqPeer)
