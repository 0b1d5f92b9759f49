"""arq: keyed jobs, one worker in the same loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func

from bench.peers.measured import measure
from bench.peers.peer import Peer, call_many
from bench.peers.tasks import cancelled_at_end


class ArqPeer(Peer):
    package: ClassVar = "arq"
    settings: ClassVar = (
        "keyed `enqueue_job` from 200 callers (it has no bulk call), results not kept, hiredis; `poll_delay` 10 ms"
        " (default 500 ms, which idle has)"
    )
    recovery: ClassVar = "when the mark of its start has expired, after `job_timeout` + 10 s: 310 s"

    async def open(self) -> None:
        self.pool = await create_pool(RedisSettings.from_dsn(self.url))

    async def close(self) -> None:
        await self.pool.aclose()

    async def enqueue(self, count: int) -> None:
        await call_many(count, lambda number: self.pool.enqueue_job("job", 0.0, _job_id=f"k{number}"))

    async def enqueue_again(self, count: int) -> None:
        await self.enqueue(count)

    async def enqueue_at(self, dues: Sequence[float]) -> None:
        async def enqueue(number: int) -> None:
            due = dues[number]
            await self.pool.enqueue_job("job", due, _job_id=f"k{number}", _defer_until=datetime.fromtimestamp(due, UTC))

        await call_many(len(dues), enqueue)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        async def job(ctx: Any, due: float) -> None:
            await self.work.run(due)

        worker = Worker(
            functions=[func(job, name="job")],
            redis_settings=RedisSettings.from_dsn(self.url),
            max_jobs=self.concurrency,
            poll_delay=0.5 if self.case == "idle" else 0.01,
            keep_result=0,
            handle_signals=False,
        )
        async with cancelled_at_end(asyncio.create_task(worker.main())):
            yield


if __name__ == "__main__":
    measure(ArqPeer)
