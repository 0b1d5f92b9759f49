"""taskiq on Redis streams: 300 at a time."""

from __future__ import annotations

import asyncio
import contextlib

from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

from bench.peers.measured import CONCURRENCY, Done, arguments, rate_of_calls, report


async def main() -> None:
    url, count = arguments()
    broker = RedisStreamBroker(url)
    done = Done(count)

    @broker.task(task_name="noop")
    async def noop() -> None:
        done.one()

    await broker.startup()
    enqueue = await rate_of_calls(count, lambda _: noop.kiq())
    done.start()
    serving = asyncio.create_task(run_receiver_task(broker, max_async_tasks=CONCURRENCY))
    report(enqueue, await done.wait())
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    await broker.shutdown()


asyncio.run(main())
