"""What batches share in one process, open as long as the host is."""

from __future__ import annotations

from dataclasses import dataclass

from rota.batches.accepting import Accepting
from rota.batches.agents.generation import Generation
from rota.batches.collecting import Collecting
from rota.batches.dispatching import Dispatching
from rota.batches.ending import Ending
from rota.batches.feed import BatchFeed
from rota.batches.handler import SubtaskHandler
from rota.batches.offering import Offering
from rota.batches.room import Room
from rota.batches.rows import BatchRows
from rota.batches.waiting import Waiting
from rota.database import Database

__all__ = ["BatchWork"]


@dataclass(frozen=True)
class BatchWork:
    """One step of a batch each."""

    database: Database
    rows: BatchRows
    room: Room
    accepting: Accepting
    offering: Offering
    dispatching: Dispatching
    waiting: Waiting
    handler: SubtaskHandler
    generation: Generation
    collecting: Collecting
    ending: Ending
    feed: BatchFeed

    async def close(self) -> None:
        await self.room.close()
        await self.accepting.close()
        await self.dispatching.close()
        await self.generation.close()
        await self.waiting.close()
        await self.feed.close()
