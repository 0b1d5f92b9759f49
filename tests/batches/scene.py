"""Batches in tests: apps on real stores and buses, with a generator that does what a test wants."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from rota import Rota
from rota.batches import BatchesPart, BatchHandle, Generated, GenerationRequest, Item
from rota.batches.batch import Batch, Subtask
from rota.batches.keeper import Keeper, KeeperSettings
from rota.batches.names import DETAIL_BATCH, REQUESTED
from rota.batches.work import BatchWork
from rota.clock import SystemClock
from rota.core.task import Identity, Task
from rota.database.tables.events import outbox
from rota.runtime.duty import DutyContext
from rota.runtime.health import Pulse
from rota.testing.waiting import until

__all__ = ["Maker", "Scene", "World", "names"]

Behaviour = Callable[[GenerationRequest], Awaitable[Generated]]


@dataclass
class World:
    """Where things are: a store, a database and a bus."""

    name: str
    settings: dict[str, Any]
    empty_store: Callable[[], object] | None = None
    """Loses everything in the store, where that is something else than the database."""


_numbers = itertools.count(1)
_SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va")


def names(count: int) -> list[Item]:
    """Items that are like no others."""
    made: list[Item] = []
    for number in itertools.islice(_numbers, count):
        digits = [(number >> shift) & 15 for shift in (12, 8, 4, 0)]
        # Each one three times: one syllable more or less is more than a little.
        made.append(Item("".join(_SYLLABLES[digit] * 3 for digit in digits), {"description": f"number {number}"}))
    return made


class Maker:
    """A generator whose answers a test decides. It answers at once with what was asked for, unless told otherwise."""

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        self.calls: list[GenerationRequest] = []
        self.behaviour = behaviour
        self.gate = asyncio.Event()
        """Calls wait until it is set."""
        self.gate.set()

    async def generate(self, request: GenerationRequest) -> Generated:
        self.calls.append(request)
        await self.gate.wait()
        if self.behaviour is not None:
            return await self.behaviour(request)
        return Generated(names(request.count))

    def estimate(self, type: str, count: int, style: object) -> int:  # noqa: A002 - the word of requests
        return 100 * count

    async def close(self) -> None: ...


@dataclass
class Scene:
    """One app, its generator, and what to look at."""

    app: Rota
    maker: Maker
    part: BatchesPart
    jobs: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    @property
    def batches(self) -> Any:
        return self.part.batches

    async def start(self, count: int = 20, type: str = "location_name", **more: Any) -> BatchHandle:  # noqa: A002
        return await self.part.batches.start(type, count, **more)

    def run(self) -> None:
        """Have the worker run until the scene ends."""
        self.jobs.append(asyncio.create_task(self.app.run(timeout=1)))

    async def rest(self) -> None:
        """Let the worker stop."""
        for job in self.jobs:
            job.cancel()
        await asyncio.gather(*self.jobs, return_exceptions=True)
        self.jobs.clear()

    async def work(self) -> BatchWork:
        return await self.part.work()

    async def write(self, function: Callable[[Connection], Any]) -> Any:
        return await (await self.work()).database.write(function)

    async def batch(self, handle: BatchHandle) -> Batch:
        return await self.part.batches.get(handle.id)

    async def subtasks(self, handle: BatchHandle) -> list[Subtask]:
        return await self.part.batches.subtasks(handle.id)

    async def until_over(self, *handles: BatchHandle) -> list[Batch]:
        """Until batches have ended; as they are then."""
        for handle in handles:
            await until(lambda handle=handle: self._is_over(handle), f"the batch {handle.id} has ended")
        return [await self.batch(handle) for handle in handles]

    async def _is_over(self, handle: BatchHandle) -> bool:
        return not (await self.batch(handle)).status.is_open

    async def until_calls(self, count: int) -> None:
        await until(lambda: len(self.maker.calls) >= count, f"{count} calls were made")

    async def task(self, subtask: Subtask) -> Task | None:
        store = await self.app.store()
        (task,) = await store.get([Identity(DETAIL_BATCH, subtask.id)])
        return task

    async def requests(self) -> list[Mapping[str, Any]]:
        """What agents were asked, by the outbox."""
        query = select(outbox.c.payload).where(outbox.c.event_type == REQUESTED).order_by(outbox.c.seq)
        work = await self.work()
        rows = await work.database.read(lambda connection: connection.execute(query).scalars().all())
        return [msgspec.json.decode(row) for row in rows]

    async def keeper(self, **settings: Any) -> Keeper:
        """A keeper of its own, with less patience."""
        store = await self.app.store()
        context = DutyContext(store, "keeper", SystemClock(), Pulse(SystemClock()), lambda: 0.5, call_timeout=60.0)
        return Keeper(self.part.work, context, KeeperSettings(**settings))


@asynccontextmanager
async def opened_scene(
    world: World, behaviour: Behaviour | None = None, *, tasks: Mapping[str, Any] | None = None, **settings: Any
) -> AsyncGenerator[Scene]:
    """An app on a world. `settings` are those of `batches`, `tasks` those of its task type."""
    maker = Maker(behaviour)
    part = BatchesPart(generator=maker)
    config = {
        **world.settings,
        "batches": settings,
        "scheduler": {"tasks": {DETAIL_BATCH: {"retry": {"base": "10ms", "max": "20ms"}, **(tasks or {})}}},
    }
    app = Rota(config, parts=[part])
    async with app:
        scene = Scene(app, maker, part)
        try:
            yield scene
        finally:
            maker.gate.set()
            await scene.rest()
