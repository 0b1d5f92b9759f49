"""One look for all who wait in a process: when something was committed, when somebody new waits, or after a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from rota.batches.rows import BATCHES_CHANGED
from rota.database import Database
from rota.database.changes import Subscription
from rota.errors import StoreError
from rota.logs import get_logger

__all__ = ["Looker"]

LOOK_SECONDS: Final = 5.0
"""Who waits is woken; but if a wake-up was lost nobody waits longer than this."""
AGAIN_SECONDS: Final = 0.5
"""So soon it is looked again if the database was away."""

log = get_logger("rota.batches")


class Looker:
    """Calls `look` until it is closed. It begins with the first one who waits. After a look it rests for so many
    seconds: what is committed meanwhile is seen by one look."""

    def __init__(self, database: Database, name: str, look: Callable[[], Awaitable[None]], rest: float = 0.0) -> None:
        self._database = database
        self._name = name
        self._look = look
        self._rest = rest
        self._heard: Subscription | None = None
        self._job: asyncio.Task[None] | None = None
        self._now = asyncio.Event()

    async def look_now(self) -> None:
        """Somebody waits who did not before."""
        if self._heard is None:
            self._heard = await self._database.changes.subscribe(BATCHES_CHANGED, on_wake=self._now.set)
        if self._job is None or self._job.done():
            self._job = asyncio.get_running_loop().create_task(self._look_on(), name=f"rota {self._name}")
        self._now.set()

    async def close(self) -> None:
        if self._heard is not None:
            self._heard.close()
            self._heard = None
        if self._job is not None:
            self._job.cancel()
            self._job = None

    async def _look_on(self) -> None:
        while True:
            # Before the look: what is committed while it looks is looked at again.
            self._now.clear()
            patience = LOOK_SECONDS
            try:
                await self._look()
            except StoreError as error:
                log.warning(f"{self._name} wait", error=str(error))
                patience = AGAIN_SECONDS
            if self._rest:
                await asyncio.sleep(self._rest)
            try:
                async with asyncio.timeout(patience):
                    await self._now.wait()
            except TimeoutError:
                continue
