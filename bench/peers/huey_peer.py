"""huey on SQLite: threads in the same process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar

from huey import SqliteHuey
from huey.consumer import Consumer

from bench.peers.measured import measure
from bench.peers.peer import Peer


class HueyPeer(Peer):
    package: ClassVar = "huey"
    settings: ClassVar = (
        "SqliteHuey with `fsync=True` (so is Rota), one call after another (it has no bulk call), 8 threads, 100 for"
        " sleepers, no results; its scheduler looks every second"
    )
    recovery: ClassVar = "never: a job is taken out of the queue before it runs"
    no_op_concurrency: ClassVar = 8
    delayed_a_second: ClassVar = 300

    async def open(self) -> None:
        logging.getLogger("huey").setLevel(logging.ERROR)
        path = self.url.removeprefix("sqlite:///")
        self.huey: Any = SqliteHuey(filename=path, fsync=True, results=False)
        self.job = self.huey.task(name="job")(self.work.run_in_thread)

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            self.job(0.0)

    async def enqueue_at(self, dues: Sequence[float]) -> None:
        def enqueue() -> None:
            for due in dues:
                self.job.schedule((due,), eta=datetime.fromtimestamp(due, UTC))

        await asyncio.to_thread(enqueue)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        consumer = Consumer(self.huey, workers=self.concurrency, periodic=False, initial_delay=0.01)
        consumer.start()
        try:
            yield
        finally:
            consumer.stop(graceful=False)


if __name__ == "__main__":
    measure(HueyPeer)
