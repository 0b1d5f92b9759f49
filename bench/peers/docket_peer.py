"""docket: many keyed tasks in one pipeline, one worker in the same loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from docket import Docket, Worker

from bench.peers.measured import measure
from bench.peers.peer import Peer
from bench.peers.tasks import cancelled_at_end


class DocketPeer(Peer):
    package: ClassVar = "pydocket"
    settings: ClassVar = (
        "keyed `add_many`, done tasks not kept (`execution_ttl` 0), hiredis; `scheduling_resolution` 10 ms for"
        " delayed ones (default 250 ms)"
    )
    recovery: ClassVar = "`redelivery_timeout` of 5 minutes"

    async def open(self) -> None:
        self.docket = Docket(name="bench", url=f"{self.url}?max_connections=1000", execution_ttl=timedelta(0))
        await self.docket.__aenter__()

        async def job(due: float) -> None:
            await self.work.run(due)

        self.job = job
        self.docket.register(job)

    async def close(self) -> None:
        await self.docket.__aexit__(None, None, None)

    async def enqueue(self, count: int) -> None:
        await self.docket.add_many(self.docket.call(self.job, key=f"k{number}")(0.0) for number in range(count))

    async def enqueue_again(self, count: int) -> None:
        await self.enqueue(count)

    async def enqueue_at(self, dues: Sequence[float]) -> None:
        await self.docket.add_many(
            self.docket.call(self.job, when=datetime.fromtimestamp(due, UTC), key=f"k{number}")(due)
            for number, due in enumerate(dues)
        )

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        often = timedelta(milliseconds=10 if self.case in ("latency", "burst") else 250)
        worker = Worker(
            self.docket, concurrency=self.concurrency, minimum_check_interval=often, scheduling_resolution=often
        )
        async with worker, cancelled_at_end(asyncio.create_task(worker.run_forever())):
            yield


if __name__ == "__main__":
    measure(DocketPeer)
