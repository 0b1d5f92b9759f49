"""Rota, measured by the protocol of the peers: `python -m bench.rota_peer CASE URL COUNT`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar

from bench.peers.measured import measure
from bench.peers.peer import Peer, Work, call_many
from bench.rota_app import CALLERS, measured_app

__all__ = ["RotaPeer"]


class RotaPeer(Peer):
    package: ClassVar = "rota"
    settings: ClassVar = (
        f"one `touch` a call from {CALLERS:,} callers, `max_concurrent` 300, run log and all promises on, uvloop;"
        " delayed ones in groups of 200 by the store's own `schedule`, for by `schedule(at=...)` each asks the store"
        " for its time first, and on PostgreSQL 10,000 were not made within 13 s;"
        " the clock stops when the store says that all have succeeded"
    )
    recovery: ClassVar = "within 12 s: a lease of 10 s that other workers take over"

    def __init__(self, url: str, work: Work, concurrency: int, case: str) -> None:
        super().__init__(url, work, concurrency, case)
        self.measured = measured_app(url, work, concurrency)
        self.app = self.measured.app

    async def open(self) -> None:
        await self.app.__aenter__()

    async def close(self) -> None:
        await self.app.__aexit__(None, None, None)

    async def enqueue(self, count: int) -> None:
        upkeep = self.measured.upkeep
        await call_many(count, lambda number: upkeep.touch(user_id=f"u{number}"), CALLERS)

    async def enqueue_again(self, count: int) -> None:
        await self.enqueue(count)

    async def enqueue_at(self, dues: Sequence[float]) -> None:
        await self.measured.schedule_at(dues)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        job = asyncio.create_task(self.app.run(timeout=1))
        try:
            yield
        finally:
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)

    async def ended_at(self, count: int) -> float:
        return await self.measured.succeeded_at(count)


if __name__ == "__main__":
    measure(RotaPeer)
