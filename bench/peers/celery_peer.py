"""celery on Redis: threads in the same process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar

from celery import Celery
from celery.contrib.testing.worker import start_worker

from bench.peers.measured import measure
from bench.peers.peer import Peer


class CeleryPeer(Peer):
    package: ClassVar = "celery"
    settings: ClassVar = (
        "one `apply_async` after another (it has no bulk call), pool of 8 threads, 100 for sleepers, prefetch of 64 a"
        " thread, results ignored, no gossip, mingle or heartbeat, hiredis"
    )
    recovery: ClassVar = (
        "never what was running, which is acknowledged first;"
        " what was prefetched after the `visibility_timeout` of 1 hour"
    )
    no_op_concurrency: ClassVar = 8
    delayed_a_second: ClassVar = 1_000

    async def open(self) -> None:
        logging.disable(logging.INFO)
        self.app: Any = Celery("bench", broker=self.url, task_ignore_result=True, worker_prefetch_multiplier=64)
        self.app.conf.update(worker_hijack_root_logger=False)

        @self.app.task(name="job")
        def job(due: float) -> None:
            self.work.run_in_thread(due)

        self.job = job

    async def close(self) -> None:
        self.app.close()

    async def enqueue(self, count: int) -> None:
        with self.app.producer_or_acquire() as producer:
            for _ in range(count):
                self.job.apply_async((0.0,), producer=producer)

    async def enqueue_at(self, dues: Sequence[float]) -> None:
        def enqueue() -> None:
            with self.app.producer_or_acquire() as producer:
                for due in dues:
                    self.job.apply_async((due,), eta=datetime.fromtimestamp(due, UTC), producer=producer)

        await asyncio.to_thread(enqueue)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        serving = start_worker(
            self.app,
            concurrency=self.concurrency,
            pool="threads",
            loglevel="error",
            perform_ping_check=False,
            shutdown_timeout=10.0,
        )
        await asyncio.to_thread(serving.__enter__)
        try:
            yield
        finally:
            await asyncio.to_thread(serving.__exit__, None, None, None)


if __name__ == "__main__":
    measure(CeleryPeer)
