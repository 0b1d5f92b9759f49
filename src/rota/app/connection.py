"""One store, open for as long as somebody needs it.

Several parts of an app may need the store at once: an `async with` block, a worker in the background, a run. Each holds
the connection and lets go of it; the first one opens the store, the last one closes it. All of them live in one event
loop, because the store does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from rota.errors import RotaError
from rota.forking import keep_for_ever
from rota.stores.base import Store

__all__ = ["Connection"]


class Connection:
    """Opens and closes the store of an app.

    `prepare` is called once it is open, before anybody gets it; `finish` when the last one lets go of it and it can
    still be used, `close_beside` before it is closed.
    """

    def __init__(
        self,
        make: Callable[[], Store],
        prepare: Callable[[Store], Awaitable[None]],
        finish: Callable[[], Awaitable[None]],
        close_beside: Callable[[], Awaitable[None]],
    ) -> None:
        self._make = make
        self._prepare = prepare
        self._finish = finish
        self._close_beside = close_beside
        self._store: Store | None = None
        self._holders = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gate = asyncio.Lock()
        self._holders_left_behind = 0
        """Blocks that the parent of this process is in: a child may leave them, too, and lets go of nothing there."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop in which the store is open; None if it is not."""
        return None if self._store is None else self._loop

    def store(self) -> Store | None:
        """The open store; None if nobody holds it. Another event loop than the store's is refused."""
        if self._store is not None and self._loop is not asyncio.get_running_loop():
            raise RotaError(
                "This app is connected in another event loop. Use it there, or end that connection first"
                " (leave its `async with`, or call `app.sync.close()` or `stop()`)."
            )
        return self._store

    async def acquire(self) -> Store:
        """The open store, kept open until `release`."""
        self.store()
        if self._loop is not asyncio.get_running_loop():
            # Nothing is open, so nobody waits at the old gate, which may belong to a loop that has ended.
            self._loop, self._gate = asyncio.get_running_loop(), asyncio.Lock()
        async with self._gate:
            store = self._store or await self._open()
            self._holders += 1
            return store

    def forget_parent(self) -> None:
        """In a forked child: nothing is open here. The store is the parent's, as are its threads and its loop."""
        keep_for_ever(self._store, self._loop, self._gate)
        self._holders_left_behind = self._holders
        self._store, self._loop, self._gate = None, None, asyncio.Lock()
        self._holders = 0

    async def release(self) -> None:
        """Undo one `acquire`; the last one closes the store."""
        if not self._holders and self._holders_left_behind:
            self._holders_left_behind -= 1
            return
        async with self._gate:
            assert self._holders > 0, "nobody holds the connection"
            self._holders -= 1
            if self._holders == 0 and self._store is not None:
                try:
                    await self._finish()
                finally:
                    await self._close()

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[Store, None]:
        """`acquire` and `release` around a block."""
        store = await self.acquire()
        try:
            yield store
        finally:
            await self.release()

    async def _close(self) -> None:
        store, self._store = self._store, None
        try:
            await self._close_beside()
        finally:
            if store is not None:
                await store.close()

    async def _open(self) -> Store:
        store = self._make()
        try:
            await store.open()
            await self._prepare(store)
        except BaseException:
            await store.close()
            raise
        self._store = store
        return store
