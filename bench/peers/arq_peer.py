"""arq: keyed jobs, one worker, 300 at a time."""

from __future__ import annotations

import asyncio
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func

from bench.peers.measured import CONCURRENCY, Done, arguments, rate_of_calls, report


async def main() -> None:
    url, count = arguments()
    pool = await create_pool(RedisSettings.from_dsn(url))
    done = Done(count)

    async def noop(ctx: Any) -> None:
        done.one()

    enqueue = await rate_of_calls(count, lambda number: pool.enqueue_job("noop", _job_id=f"k{number}"))
    worker = Worker(
        functions=[func(noop, name="noop")],
        redis_settings=RedisSettings.from_dsn(url),
        max_jobs=CONCURRENCY,
        poll_delay=0.01,
        keep_result=0,
        handle_signals=False,
        burst=True,
    )
    done.start()
    serving = asyncio.create_task(worker.main())
    report(enqueue, await done.wait())
    serving.cancel()


asyncio.run(main())
