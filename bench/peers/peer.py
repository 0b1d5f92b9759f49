"""What a queue says of itself to be measured: how it enqueues, and how its worker lives."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import ClassVar

__all__ = ["CALLERS", "Cannot", "Mark", "Peer", "Work", "call_many", "groups"]

CALLERS = 200
"""How many call at once, where a queue takes one job a call."""
GROUP = 500
"""How many jobs travel together, where a queue takes many."""

Mark = tuple[float, float]
"""When a job was due, and when it ran, in seconds of the wall's clock."""


class Cannot(Exception):
    """This queue has no such thing; the message says why."""


class Work:
    """What every job does: nothing, or a short sleep; and it leaves a mark."""

    def __init__(self, sleep_seconds: float = 0.0) -> None:
        self._sleep_seconds = sleep_seconds
        self.marks: list[Mark] = []

    async def run(self, due: float) -> None:
        if self._sleep_seconds:
            await asyncio.sleep(self._sleep_seconds)
        self.marks.append((due, time.time()))

    def run_in_thread(self, due: float) -> None:
        if self._sleep_seconds:
            time.sleep(self._sleep_seconds)
        self.marks.append((due, time.time()))  # appending is atomic: threads share the list


class Peer(ABC):
    """One queue, with the fastest settings that its documentation offers for this work."""

    package: ClassVar[str]
    """The distribution whose version is told."""
    settings: ClassVar[str]
    """What was chosen for it, in words."""
    recovery: ClassVar[str]
    """When the work of a killed worker runs again with the default settings, by its documentation."""
    no_op_concurrency: ClassVar[int] = 300
    """How many no-ops at once; where each costs a thread, fewer are faster."""
    delayed_a_second: ClassVar[int] = 2_000
    """At least so many delayed jobs a second can be enqueued: they are due when all have been."""

    def __init__(self, url: str, work: Work, concurrency: int, case: str) -> None:
        self.url = url
        self.work = work
        self.concurrency = concurrency
        self.case = case
        """What is measured: a queue that polls does so often where that is faster, and as it comes when it is idle."""

    @classmethod
    def version(cls) -> str:
        return version(cls.package)

    async def open(self) -> None:  # noqa: B027 - most queues have nothing to open
        """Connect, and declare the job: it takes a due time and hands it to the work."""

    async def close(self) -> None:  # noqa: B027 - the same
        """Disconnect."""

    @abstractmethod
    async def enqueue(self, count: int) -> None:
        """Enqueue new jobs, by key where the queue knows keys, with 0.0 as their due time."""

    async def enqueue_again(self, count: int) -> None:
        """Enqueue the same keys once more, which changes nothing."""
        raise Cannot(f"{self.package} takes the same job twice")

    @abstractmethod
    async def enqueue_at(self, dues: Sequence[float]) -> None:
        """Enqueue jobs that are due at these times."""

    @abstractmethod
    def working(self) -> AbstractAsyncContextManager[None]:
        """A worker in this process, for the length of the block."""

    async def ended_at(self, count: int) -> float:
        """When all was done: the last mark, or when the queue itself says that so many are done, where it does."""
        assert len(self.work.marks) >= count
        return max(ran for _, ran in self.work.marks)


async def call_many(count: int, call: Callable[[int], Awaitable[object]], callers: int = CALLERS) -> None:
    """Call with every number below `count`, many at once."""
    numbers = iter(range(count))

    async def caller() -> None:
        for number in numbers:
            await call(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(callers, count)):
            group.create_task(caller())


def groups(count: int, size: int = GROUP) -> list[range]:
    """The numbers below `count`, in groups that travel together."""
    return [range(first, min(first + size, count)) for first in range(0, count, size)]
