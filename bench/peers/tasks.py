"""Workers that run as tasks of the loop or in threads, for the length of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

__all__ = ["cancelled_at_end"]

STOPPING_SECONDS = 5.0


@asynccontextmanager
async def cancelled_at_end(*workers: asyncio.Task[object]) -> AsyncGenerator[None]:
    """Tasks that serve until the block ends. One that ends before that is an error, told at once."""
    body = asyncio.current_task()
    assert body is not None
    failed: list[BaseException] = []

    def ended(worker: asyncio.Task[object]) -> None:
        if not worker.cancelled():
            failed.append(worker.exception() or RuntimeError("The worker ended by itself."))
            body.cancel()

    for worker in workers:
        worker.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if failed:
            raise failed[0] from None
        raise
    finally:
        for worker in workers:
            worker.remove_done_callback(ended)
            worker.cancel()
        # How a worker takes its end is its own affair; what is measured has been.
        await asyncio.wait(workers, timeout=STOPPING_SECONDS)
