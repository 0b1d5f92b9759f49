"""Hears the pokes of other instances, over a connection of its own; when that breaks it makes another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from rota.stores.redis.client import close_client
from rota.stores.redis.scripts import Scripts

__all__ = ["PokeListener"]

_PAUSE = 1.0
"""Seconds after which a broken subscription is made anew. The tick covers the gap."""
_SLICE = 2.0
"""Seconds that one read waits at most: a connection that died in silence is noticed."""


class PokeListener:
    """Calls `poke` on the event loop whenever another instance makes something due soon."""

    def __init__(self, scripts: Scripts, poke: Callable[[], None]) -> None:
        self._scripts = scripts
        self._poke = poke
        self._task: asyncio.Task[None] | None = None
        self._subscribed = asyncio.Event()
        self._is_stopping = False

    async def start(self) -> None:
        """Begin to listen; returns once it does, or soon in any case."""
        self._subscribed = asyncio.Event()
        self._is_stopping = False
        self._task = asyncio.get_running_loop().create_task(self._run(), name="rota-redis-listener")
        with suppress(TimeoutError):
            async with asyncio.timeout(_SLICE):
                await self._subscribed.wait()

    async def stop(self) -> None:
        task, self._task = self._task, None
        # The driver may take a cancellation for the end of one of its own waits, so the loops look at this as well.
        self._is_stopping = True
        while task is not None and not task.done():
            # Its connection is its own and is closed with it: no reply can reach anybody else.
            task.cancel()
            await asyncio.wait([task], timeout=_SLICE)

    async def _run(self) -> None:
        attempt = 0
        while not self._is_stopping:
            # Whatever the driver calls it: a subscription that broke is made anew.
            with suppress(Exception):
                await self._listen(attempt)
            attempt += 1
            await asyncio.sleep(_PAUSE)

    async def _listen(self, attempt: int) -> None:
        client = self._scripts.server.listening_client(attempt)
        subscription = cast("Any", client).pubsub()
        try:
            await subscription.subscribe(self._scripts.keys.wake)
            while not self._is_stopping:
                message = await subscription.get_message(timeout=_SLICE)
                if message is not None:
                    self._heard(message)
        finally:
            with suppress(Exception):
                await subscription.aclose()
            with suppress(Exception):
                await close_client(client)

    def _heard(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe":
            if self._subscribed.is_set():
                # Again: whatever was published meanwhile was not heard.
                self._poke()
            self._subscribed.set()
        elif message["data"] != self._scripts.origin.encode():
            self._poke()
