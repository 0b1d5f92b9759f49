"""saq: keyed jobs, one worker, 300 at a time."""

from __future__ import annotations

import asyncio
from typing import Any

from saq import Queue, Worker

from bench.peers.measured import CONCURRENCY, Done, arguments, rate_of_calls, report


async def main() -> None:
    url, count = arguments()
    queue = Queue.from_url(url)
    await queue.connect()
    done = Done(count)

    async def noop(ctx: Any) -> None:
        done.one()

    enqueue = await rate_of_calls(count, lambda number: queue.enqueue("noop", key=f"k{number}"))
    worker = Worker(queue, functions=[("noop", noop)], concurrency=CONCURRENCY)
    done.start()
    serving = asyncio.create_task(worker.start())
    report(enqueue, await done.wait())
    serving.cancel()


asyncio.run(main())
