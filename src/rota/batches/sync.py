"""`app.sync.batches`: the same for code without an event loop.

batch = app.sync.batches.start("location_name", 50, style="norse")
for item in batch: ...              # the first ones at once, the rest as they come
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping
from typing import Any, Literal, Protocol, TypedDict, TypeVar, Unpack

from rota.batches.batch import Batch
from rota.batches.generators.base import Item
from rota.batches.rows import BatchEvent
from rota.batches.service import Batches, BatchHandle, BatchResult
from rota.runtime.signals import Duration

__all__ = ["BatchOptions", "SyncBatch", "SyncBatches"]

T = TypeVar("T")


class BatchOptions(TypedDict, total=False):
    """What `start` takes beside type and count."""

    style: str | Mapping[str, Any]
    session_id: str | None
    user_id: str | None
    priority: int
    seed: int | None
    distinct: Literal["batch", "session"]
    deadline: Duration | None
    budget_tokens: int | None
    idempotency_key: str | None
    correlation_id: str | None
    resume: Mapping[str, Any] | None
    owner: str


class Waits(Protocol):
    """Whoever waits for a call, on a loop of its own."""

    def wait(self, call: Coroutine[Any, Any, T]) -> T: ...


class SyncBatches:
    """The batches of one app, blocking."""

    def __init__(self, batches: Batches, sync: Waits) -> None:
        self._batches = batches
        self._sync = sync

    def start(
        self,
        type: str,  # noqa: A002 - the word of requests
        count: int,
        **options: Unpack[BatchOptions],
    ) -> SyncBatch:
        """Ask for a number of items. When this returns, nothing of it can be lost any more."""
        return SyncBatch(self._sync.wait(self._batches.start(type, count, **options)), self._sync)

    def handle(self, batch_id: str) -> SyncBatch:
        """A batch that was asked for before."""
        return SyncBatch(self._sync.wait(self._batches.handle(batch_id)), self._sync)


class SyncBatch:
    """One batch, for whoever asked for it."""

    def __init__(self, handle: BatchHandle, sync: Waits) -> None:
        self._handle = handle
        self._sync = sync
        self.id = handle.id
        self.accepted = handle.accepted
        """The batch as it was when it was asked for."""
        self.is_new = handle.is_new
        """False: the same request had been accepted before, under the same idempotency key."""

    def __iter__(self) -> Iterator[Item]:
        """The items as they come, until the end of the batch."""
        return self._each(self._handle.items())

    def events(self, after: int = 0) -> Iterator[BatchEvent]:
        """What is told about it, after a number, until its end."""
        return self._each(self._handle.events(after))

    def result(self) -> BatchResult:
        """Wait for its end: how it ended, and all of its items."""
        return self._sync.wait(self._handle.result())

    def status(self) -> Batch:
        """How it stands now."""
        return self._sync.wait(self._handle.status())

    def pause(self) -> Batch:
        return self._sync.wait(self._handle.pause())

    def resume(self) -> Batch:
        return self._sync.wait(self._handle.resume())

    def cancel(self) -> Batch:
        return self._sync.wait(self._handle.cancel())

    def _each(self, coming: AsyncGenerator[T]) -> Iterator[T]:
        async def following() -> T | None:
            return await anext(coming, None)

        try:
            while (one := self._sync.wait(following())) is not None:
                yield one
        finally:
            self._sync.wait(coming.aclose())

    def __repr__(self) -> str:
        return f"<batch {self.id}>"
