"""Group commit, in one place for everyone who writes.

Calls that arrive while a group is in flight form the next one. There is no timer: a lone caller waits for nothing, and
a thousand callers share a handful of transactions. A group has a limit in items (`most`) and in bytes.

Cancelling a caller never cancels its group: the others in it have been promised an answer, and a write that is half
read from a socket poisons the connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from rota.call_timeout import seconds_of
from rota.errors import StoreUnavailable

__all__ = ["MAX_GROUP", "MAX_GROUP_BYTES", "Call", "GroupCommit", "write_together"]

MAX_GROUP: Final = 200
MAX_GROUP_BYTES: Final = 1_048_576

Item = TypeVar("Item")
Result = TypeVar("Result")


class Call(NamedTuple, Generic[Item, Result]):
    """What one caller has brought, and who waits for the answer."""

    items: Sequence[Item]
    size: int
    future: asyncio.Future[list[Result | Exception]]


class GroupCommit(Generic[Item, Result]):
    """Runs one verb for many callers at a time.

    `run` is given the items of a group and returns one result per item; a result that is an exception is raised in
    the caller that brought the item, and in no other.
    """

    def __init__(
        self,
        run: Callable[[list[Item]], Awaitable[Sequence[Result | Exception]]],
        size_of: Callable[[Item], int],
        *,
        in_flight: int = 1,
        most: int = MAX_GROUP,
        patience: float | None = None,
    ) -> None:
        self._run = run
        self._most = most
        self._size_of = size_of
        self._in_flight = in_flight
        self._patience = seconds_of(patience)
        self._unanswered: deque[tuple[float, asyncio.Future[list[Result | Exception]]]] = deque()
        """Calls by their deadline. All are equally patient, so the order of arrival is the order of deadlines, and
        one timer does for thousands of callers."""
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: deque[Call[Item, Result]] = deque()
        self._runners: set[asyncio.Task[Any]] = set()

    async def submit(self, items: Sequence[Item]) -> list[Result]:
        """The results of these items, in order. More than a group's worth is split, each part atomic by itself.

        The first item that could not be written raises its error. When its patience ends the caller is told that the
        store is away; the group goes on.
        """
        results = await self.submit_each(items)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return cast("list[Result]", results)

    async def submit_each(self, items: Sequence[Item]) -> list[Result | Exception]:
        """The same, where an item that could not be written is answered by its error."""
        size = sum(map(self._size_of, items))
        if len(items) <= self._most and size <= MAX_GROUP_BYTES:
            return await self._join(items, size)
        results: list[Result | Exception] = []
        for part, size in self._parts(items):
            results += await self._join(part, size)
        return results

    def _parts(self, items: Sequence[Item]) -> Iterator[tuple[list[Item], int]]:
        """Groups within the limits, each with its bytes; an item that is too big by itself is one."""
        part: list[Item] = []
        size = 0
        for item in items:
            more = self._size_of(item)
            if part and (len(part) == self._most or size + more > MAX_GROUP_BYTES):
                yield part, size
                part, size = [], 0
            part.append(item)
            size += more
        yield part, size

    async def _join(self, items: Sequence[Item], size: int) -> list[Result | Exception]:
        loop = asyncio.get_running_loop()
        call: Call[Item, Result] = Call(items, size, loop.create_future())
        self._waiting.append(call)
        unanswered = self._unanswered
        while unanswered and unanswered[0][1].done():
            unanswered.popleft()
        unanswered.append((loop.time() + self._patience, call.future))
        if self._timer is None:
            self._timer = loop.call_at(unanswered[0][0], self._give_up, loop)
        self._begin(loop)
        return await call.future

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """See to it that somebody takes what waits."""
        if len(self._runners) < self._in_flight:
            self._runners.add(loop.create_task(self._run_groups()))

    def _give_up(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell everybody whose patience has ended; then watch for the next one."""
        unanswered = self._unanswered
        while unanswered and (unanswered[0][1].done() or unanswered[0][0] <= loop.time()):
            _, future = unanswered.popleft()
            if not future.done():
                future.set_exception(
                    StoreUnavailable(
                        f"The store did not answer within {self._patience:g} s. "
                        "Whether the call took effect is unknown."
                    )
                )
        self._timer = loop.call_at(unanswered[0][0], self._give_up, loop) if unanswered else None

    async def drain(self) -> None:
        """Until everything that was submitted has been answered."""
        await self._rest()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._unanswered.clear()

    async def _rest(self) -> None:
        """Until nobody takes any more, for nothing waits."""
        while self._runners:
            await asyncio.wait(self._runners)

    async def _run_groups(self) -> None:
        """One group after the other, until nobody waits."""
        runner = asyncio.current_task()
        assert runner is not None
        try:
            while self._waiting:
                await self._run_group(self._next_group())
        finally:
            # Not when the task is done, which is a moment later: whoever submits in between would wait for nobody.
            self._runners.discard(runner)

    def _next_group(self) -> list[Call[Item, Result]]:
        calls: list[Call[Item, Result]] = []
        items = size = 0
        while self._waiting:
            call = self._waiting[0]
            if calls and (items + len(call.items) > self._most or size + call.size > MAX_GROUP_BYTES):
                break
            calls.append(self._waiting.popleft())
            items += len(call.items)
            size += call.size
        return calls

    async def _run_group(self, calls: list[Call[Item, Result]]) -> None:
        try:
            results = await self._run([item for call in calls for item in call.items])
        except Exception as error:
            results = [error] * sum(len(call.items) for call in calls)
        self._answer(calls, results)

    @staticmethod
    def _answer(calls: Sequence[Call[Item, Result]], results: Sequence[Result | Exception]) -> None:
        start = 0
        for items, _, future in calls:
            if not future.done():
                future.set_result(list(results[start : start + len(items)]))
            start += len(items)


async def write_together(
    write: Callable[[list[Item]], Awaitable[Sequence[Result | Exception]]], items: list[Item]
) -> list[Result | Exception]:
    """Items in one go; if together they cannot be written, each by itself: the bad one fails alone."""
    try:
        return [*await write(items)]
    except Exception as error:
        if len(items) == 1 or isinstance(error, StoreUnavailable):
            return [error] * len(items)
    return [(await write_together(write, [item]))[0] for item in items]
