"""streaq: bulk enqueue, 300 at a time."""

from __future__ import annotations

import asyncio
import time

from streaq import Worker

from bench.peers.measured import CONCURRENCY, Done, arguments, report

GROUP = 200


async def main() -> None:
    url, count = arguments()
    worker = Worker(redis_url=url, concurrency=CONCURRENCY, handle_signals=False)
    done = Done(count)

    @worker.task
    async def noop() -> None:
        done.one()

    async with worker:
        started = time.perf_counter()
        for _ in range(0, count, GROUP):
            await worker.enqueue_many([noop.enqueue() for _ in range(GROUP)])
        enqueue = count / (time.perf_counter() - started)
    done.start()
    serving = asyncio.create_task(worker.run_async())
    report(enqueue, await done.wait())
    serving.cancel()


asyncio.run(main())
