"""What is told about batches, as it comes: one read a process, however many listen, and any instance can go on where
another one stopped.

The events of a batch are rows with numbers that have no hole, in the order in which they were committed. While somebody
follows a batch, its events are kept here, all of them once; who comes back with the number of the last one that they
saw gets exactly the following ones.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from functools import partial
from typing import Final

from sqlalchemy import select

from rota.batches.batch import BatchStatus, unknown_batch
from rota.batches.looking import Looker
from rota.batches.rows import BatchEvent, BatchRows
from rota.database.tables.batches import batches
from rota.group_commit import GroupCommit, write_together

__all__ = ["ENDS", "BatchFeed"]

ENDS: Final = frozenset({BatchStatus.COMPLETED.value, BatchStatus.FAILED.value, BatchStatus.CANCELLED.value})
"""After one of these nothing comes any more."""
PAGE: Final = 1_000
REST_SECONDS: Final = 0.02
"""People read no faster than this; a look for each commit of a busy minute would be a look for each item."""


class _Channel:
    """The events of one batch, for those who follow it."""

    def __init__(self) -> None:
        self.events: list[BatchEvent] = []
        self.listeners = 0
        self.more = asyncio.Event()

    def add(self, events: list[BatchEvent]) -> None:
        if events:
            self.events += events
            self.more.set()
            self.more = asyncio.Event()


class BatchFeed:
    """One a process."""

    def __init__(self, rows: BatchRows) -> None:
        self._rows = rows
        self._database = rows.database
        self._channels: dict[str, _Channel] = {}
        self._looker = Looker(rows.database, "batch feeds", self._look, rest=REST_SECONDS)
        dialect = rows.database.backend.dialect
        self._ids = select(batches.c.id).where(dialect.among(batches.c.id))
        self._known: GroupCommit[str, bool] = GroupCommit(
            partial(write_together, self._look_whether_known), lambda _: 0, patience=rows.database.call_timeout
        )
        self.reads = 0
        """How often the database was asked."""

    @property
    def listeners(self) -> int:
        return sum(channel.listeners for channel in self._channels.values())

    async def follow(
        self, batch_id: str, after: int = 0, *, patience: float | None = None
    ) -> AsyncGenerator[BatchEvent | None]:
        """The events of a batch after a number, until its end. None after so many seconds without one (`patience`).
        `UnknownBatch` if there is none."""
        channel = await self._join(batch_id)
        try:
            if not channel.events:
                await self._looker.look_now()
            at = max(after, 0)
            while True:
                more = channel.more
                for event in channel.events[at:]:
                    at += 1
                    yield event
                    if event.event in ENDS:
                        return
                if at >= len(channel.events) and channel.events and channel.events[-1].event in ENDS:
                    return  # whoever comes with the number of the end, or one beyond it, has seen it all
                if len(channel.events) > at:
                    continue
                try:
                    async with asyncio.timeout(patience):
                        await more.wait()
                except TimeoutError:
                    yield None
        finally:
            self._leave(batch_id, channel)

    async def _join(self, batch_id: str) -> _Channel:
        """Those who come first read what there is, those who come later share it."""
        channel = self._channels.get(batch_id)
        if channel is not None:
            channel.listeners += 1
            return channel
        (is_known,) = await self._known.submit([batch_id])
        if not is_known:
            raise unknown_batch(batch_id)
        channel = self._channels.setdefault(batch_id, _Channel())
        channel.listeners += 1
        return channel

    def _leave(self, batch_id: str, channel: _Channel) -> None:
        channel.listeners -= 1
        if not channel.listeners:
            self._channels.pop(batch_id, None)

    async def close(self) -> None:
        await self._known.drain()
        await self._looker.close()

    async def _look_whether_known(self, ids: list[str]) -> list[bool]:
        keys = self._database.backend.dialect.keys(ids)
        known = await self._database.read(
            lambda connection: set(connection.execute(self._ids, {"keys": keys}).scalars())
        )
        return [id_ in known for id_ in ids]

    async def _look(self) -> None:
        """Read what is new of all batches that somebody follows."""
        while self._channels and await self._read_page():
            pass

    async def _read_page(self) -> bool:
        """One read for all of them; whether there may be more."""
        # Who comes back meanwhile may have a channel of the same batch that is new, and wants all of it: what is read
        # here is for those of now.
        channels = dict(self._channels)
        known = {batch_id: len(channel.events) for batch_id, channel in channels.items()}
        self.reads += 1
        found = await self._database.read(lambda connection: self._rows.events_after(connection, known, PAGE))
        told: defaultdict[str, list[BatchEvent]] = defaultdict(list)
        for batch_id, event in found:
            told[batch_id].append(event)
        for batch_id, events in told.items():
            channels[batch_id].add(events)
        return len(found) == PAGE
