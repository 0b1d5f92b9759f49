"""The worker that an application has in the background of its event loop.

A shared store that is away is waited for, in the background too: an outage ends no application, not even one that
starts during it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress

from rota.app.connection import Connection
from rota.errors import StoreUnavailable
from rota.logs import get_logger
from rota.runtime import Health, Worker
from rota.runtime.duty import back_off_seconds
from rota.runtime.handler import Handler
from rota.runtime.thread_duty import call_on
from rota.stores.base import Store

__all__ = ["Background"]

log = get_logger("rota.scheduler")


class Background:
    """Starts and stops a worker, and says how it is.

    `make` gives a new worker on a store. With `waits` a store that is away at the start is asked for again and again.
    """

    def __init__(self, connection: Connection, make: Callable[[Store], Worker], *, waits: bool) -> None:
        self._connection = connection
        self._make = make
        self._waits = waits
        self._worker: Worker | None = None
        self._serving: asyncio.Task[None] | None = None
        self._away: str | None = None
        """What keeps a worker that was started from the store; None if nothing does."""
        self._stop_asked = asyncio.Event()

    @property
    def is_running(self) -> bool:
        """Whether a worker works."""
        return self._worker is not None and self._worker.is_running

    @property
    def is_started(self) -> bool:
        """Whether a worker was started and nobody stopped it: it works, it waits for the store, or it has ended by an
        error."""
        return self._serving is not None or self.is_running

    def health(self) -> Health:
        """Whether the worker can do its work now, and if not, why."""
        if self._away is not None:
            return Health(ok=False, reasons=(f"The worker waits for the store. {self._away}",))
        if self._worker is None and self._connection.loop is not None:
            return Health(ok=True, reasons=())  # a process that makes work and leaves it to others
        if self._worker is None:
            return Health(ok=False, reasons=("This process is not connected, and no worker was started in it.",))
        return self._worker.health()

    def make_worker(self, store: Store) -> Worker:
        """A worker for somebody who runs it and holds the store meanwhile."""
        self._worker = self._make(store)
        return self._worker

    def serve(self, handlers: Mapping[str, Handler]) -> None:
        """Have a worker that runs serve these, too. Any thread."""
        worker, loop = self._worker, self._connection.loop
        if worker is not None and worker.is_running and loop is not None:
            call_on(loop, worker.serve, handlers)

    async def start(self) -> None:
        """Have a worker run until `stop`. Starting again is harmless."""
        if self.is_running or self._away is not None:
            return
        try:
            worker = await self._acquire_and_make()
        except StoreUnavailable as error:
            if not self._waits:
                raise
            self._away, self._stop_asked = str(error), asyncio.Event()
            self._serving = asyncio.create_task(self._serve_when_there(), name="rota-worker")
            return
        self._serving = asyncio.create_task(self._serve(worker), name="rota-worker")
        await asyncio.sleep(0)  # its first step, after which it is running

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109 - how long running work may finish, not the call
        """End the worker, whether it was started here or is run by somebody else."""
        serving, self._serving = self._serving, None
        self._stop_asked.set()
        if self._worker is not None:
            await self._worker.stop(timeout)
        if serving is not None:
            await asyncio.wait([serving])

    async def _acquire_and_make(self) -> Worker:
        store = await self._connection.acquire()
        try:
            return self.make_worker(store)
        except BaseException:
            await self._connection.release()
            raise

    async def _serve(self, worker: Worker) -> None:
        try:
            await worker.run()
        except Exception:
            # Nobody awaits this task: the log is the only place where the error can be seen.
            log.exception("worker ended", instance=worker.instance)
        finally:
            await self._connection.release()

    async def _serve_when_there(self) -> None:
        """Ask for the store again and again, and then work."""
        try:
            worker = await self._make_when_there()
        except Exception:
            # As above: nobody awaits this task.
            log.exception("worker not started")
            return
        finally:
            self._away = None
        if worker is not None:
            await self._serve(worker)

    async def _make_when_there(self) -> Worker | None:
        """The worker, as soon as the store answers; None if it was stopped before."""
        failures = 1
        while not self._stop_asked.is_set():
            if failures & (failures - 1) == 0:
                # An outage of hours is worth a line now and then, not two a second.
                log.warning("worker waits for the store", failures=failures, error=self._away)
            with suppress(TimeoutError):
                async with asyncio.timeout(back_off_seconds(failures, random.random())):  # noqa: S311 - it spreads
                    await self._stop_asked.wait()
                    return None
            try:
                return await self._acquire_and_make()
            except StoreUnavailable as error:
                failures += 1
                self._away = str(error)
        return None
