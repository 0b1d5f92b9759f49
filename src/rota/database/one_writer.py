"""Group commit on the thread of a database that has one writer.

A call that finds the thread idle starts it at once, and the thread takes the next group by itself when it has committed
the last one. So no commit waits for the loop, which may have two hundred handlers to begin, and what waits for the
thread waits in one group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import Any

from sqlalchemy import Connection

from rota.errors import StoreUnavailable
from rota.group_commit import Call, GroupCommit

__all__ = ["OneWriter", "Step"]

Step = Callable[[Connection], Any]


class OneWriter(GroupCommit[Step, Any]):
    """`start` has the thread call a function; `write` runs some steps in one transaction, on that thread, and gives the
    answer of each."""

    def __init__(
        self,
        start: Callable[[Callable[[], None]], Future[None]],
        write: Callable[[Sequence[Step]], list[Any]],
        *,
        patience: float,
    ) -> None:
        super().__init__(_nobody, lambda _: 0, patience=patience)
        self._start = start
        self._write = write
        self._choice = Lock()
        """Around the question whether anybody waits, and what follows from the answer."""
        self._work: Future[None] | None = None
        """What the thread was given to do, until it finds that nobody waits."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        with self._choice:
            if self._work is None:
                self._give_work()

    def _give_work(self) -> None:
        """Behind whatever else the thread is to do: a heartbeat must not wait until there is a moment of rest."""
        try:
            self._work = self._start(self._write_next)
        except StoreUnavailable as error:
            self._work = None
            while self._waiting:
                calls = self._next_group()
                self._tell(calls, [error] * sum(len(call.items) for call in calls))

    def _write_next(self) -> None:
        """On the thread: one group, and whoever waits by then is next."""
        calls = self._next_group()
        try:
            self._tell(calls, self._written([step for call in calls for step in call.items]))
        finally:
            with self._choice:
                if self._waiting:
                    self._give_work()
                else:
                    self._work = None

    def _written(self, steps: Sequence[Step]) -> list[Any]:
        """As `write_together` has it: if together they cannot be written, the bad one fails alone."""
        try:
            return self._write(steps)
        except Exception as error:
            if len(steps) == 1 or isinstance(error, StoreUnavailable):
                return [error] * len(steps)
        return [self._written([step])[0] for step in steps]

    def _tell(self, calls: Sequence[Call[Step, Any]], results: list[Any]) -> None:
        assert self._loop is not None, "whoever calls has a loop"
        with suppress(RuntimeError):  # it is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._answer, calls, results)

    async def _rest(self) -> None:
        while (work := self._work) is not None:
            await asyncio.wait([asyncio.wrap_future(work)])


async def _nobody(steps: list[Step]) -> Sequence[Any]:
    raise AssertionError(f"the thread takes {len(steps)} steps by itself")
