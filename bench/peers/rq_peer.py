"""rq: jobs in one process, one after the other, with its scheduler beside it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar

from redis import Redis
from rq import Queue, SimpleWorker
from rq.timeouts import TimerDeathPenalty

from bench.peers.measured import measure
from bench.peers.peer import Cannot, Peer, Work, groups

JOB = "__main__.job"
_work: list[Work] = []
"""What the jobs of this process do: rq finds a job by its dotted name."""


def job(due: float) -> None:
    _work[0].run_in_thread(due)


class QuietWorker(SimpleWorker):
    """In the process itself instead of a fork for each job, and in a thread, which has no signals."""

    death_penalty_class = TimerDeathPenalty

    def _install_signal_handlers(self) -> None:
        """There are none outside of the main thread."""


class RqPeer(Peer):
    package: ClassVar = "rq"
    settings: ClassVar = (
        "`enqueue_many` of 500, SimpleWorker (no fork for each job), one job at a time, results not kept, hiredis;"
        " its scheduler looks every second"
    )
    recovery: ClassVar = "never: it is moved to the failed jobs, at a maintenance every 10 minutes"
    no_op_concurrency: ClassVar = 1
    delayed_a_second: ClassVar = 500

    async def open(self) -> None:
        if self.case == "sleepers":
            raise Cannot("rq runs one job at a time in a process")
        logging.getLogger("rq").setLevel(logging.WARNING)
        self.connection = Redis.from_url(self.url)
        self.queue = Queue(connection=self.connection)
        _work[:] = [self.work]

    async def enqueue(self, count: int) -> None:
        for group in groups(count):
            self.queue.enqueue_many([Queue.prepare_data(JOB, args=(0.0,), result_ttl=0) for _ in group])

    async def enqueue_at(self, dues: Sequence[float]) -> None:
        def enqueue() -> None:
            for due in dues:
                self.queue.enqueue_at(datetime.fromtimestamp(due, UTC), JOB, due, result_ttl=0)

        await asyncio.to_thread(enqueue)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        worker: Any = QuietWorker([self.queue], connection=self.connection)
        delayed = self.case in ("latency", "burst")
        thread = threading.Thread(target=worker.work, kwargs={"with_scheduler": delayed, "logging_level": "WARNING"})
        thread.daemon = True
        thread.start()
        try:
            yield
        finally:
            worker._stop_requested = True  # noqa: SLF001 - otherwise it stops by a signal alone
            if worker.scheduler is not None:
                worker.stop_scheduler()


if __name__ == "__main__":
    measure(RqPeer)
