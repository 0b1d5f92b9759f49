"""procrastinate on PostgreSQL: one worker in the same loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import ClassVar

from procrastinate import App, PsycopgConnector

from bench.peers.measured import measure
from bench.peers.peer import Cannot, Peer, call_many, groups
from bench.peers.tasks import cancelled_at_end


class ProcrastinatePeer(Peer):
    package: ClassVar = "procrastinate"
    settings: ClassVar = (
        "`batch_defer` of 500, a pool of 10 connections, LISTEN/NOTIFY, done jobs are deleted; polled every"
        " 100 ms for delayed ones (default 5 s)"
    )
    recovery: ClassVar = "by a periodic task that one writes: workers are taken for dead after 30 s"
    delayed_a_second: ClassVar = 500

    async def open(self) -> None:
        self.app = App(connector=PsycopgConnector(conninfo=self.url, max_size=10))

        @self.app.task(name="job")
        async def job(due: float) -> None:
            await self.work.run(due)

        self.job = job
        await self.app.open_async()
        await self.app.schema_manager.apply_schema_async()

    async def close(self) -> None:
        await self.app.close_async()

    async def enqueue(self, count: int) -> None:
        for group in groups(count):
            await self.job.batch_defer_async(*({"due": 0.0} for _ in group))

    async def enqueue_again(self, count: int) -> None:
        raise Cannot("its `queueing_lock` answers a second job with an error that ends the whole batch")

    async def enqueue_at(self, dues: Sequence[float]) -> None:
        async def enqueue(number: int) -> None:
            due = dues[number]
            await self.job.configure(schedule_at=datetime.fromtimestamp(due, UTC)).defer_async(due=due)

        await call_many(len(dues), enqueue, callers=10)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        serving = self.app.run_worker_async(
            concurrency=self.concurrency,
            fetch_job_polling_interval=0.1 if self.case in ("latency", "burst") else 5.0,
            delete_jobs="always",
            install_signal_handlers=False,
            shutdown_graceful_timeout=1,
        )
        async with cancelled_at_end(asyncio.create_task(serving)):
            yield


if __name__ == "__main__":
    measure(ProcrastinatePeer)
