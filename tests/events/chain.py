"""The whole way of an event, from a commit to its effect: as many instances as a test wants, on a bus of its choice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, insert, select
from tests.events.conftest import TOPIC, BusWorld
from tests.opening import opened

from rota.clock import Millis, SystemClock
from rota.database import Database
from rota.database.tables.events import inbox, outbox
from rota.events.buses.base import Bus
from rota.events.buses.local import LocalBus
from rota.events.consumer import Consumer, ConsumerFunction
from rota.events.consuming import make_duties
from rota.events.envelope import Event
from rota.events.events import Events
from rota.events.outbox import Outbox
from rota.events.relay import Relay
from rota.events.section import EventsConfig
from rota.runtime.duty import Duty, DutyContext
from rota.runtime.health import Pulse
from rota.stores.memory import MemoryStore
from rota.testing.waiting import until

EFFECTS = Table(
    "effects",
    MetaData(),
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("consumer", Text),
    Column("event_id", Text),
    Column("key", Text),
    Column("number", Integer),
)
TYPE = "Shop.Order.Created"
LEASE_MS: Millis = 3_000
FAST = EventsConfig(prefix="", retry_base_ms=1, retry_max_ms=20, partitions=8)


class Instance:
    """What one process would have: duties over connections of its own."""

    def __init__(self, name: str, events: Events, *, lease_ms: Millis) -> None:
        self.name = name
        self.events = events
        self.pulse = Pulse(SystemClock())
        self._lease_ms = lease_ms
        self._context = DutyContext(
            MemoryStore(), name, SystemClock(), self.pulse, random.Random(name).random, call_timeout=60.0
        )
        self.duties: list[Duty[Any]] = []
        self._running: list[asyncio.Task[None]] = []

    async def _open(self) -> Events:
        return self.events

    def relay(self) -> Instance:
        self.duties.append(self.make_relay())
        return self

    def make_relay(self, **more: Any) -> Relay:
        return Relay(self._open, self._context, lease_ms=self._lease_ms, **more)

    def consume(self, function: ConsumerFunction, *, name: str = "mail", **more: Any) -> Instance:
        topics: tuple[str, ...] = more.pop("topics", ())
        consumer = Consumer(name=name, event_types=(TYPE,), function=function, topics=topics, **more).checked()
        self.duties += make_duties(consumer, self._open, self._context, lease_ms=self._lease_ms)
        return self

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Instance]:
        self._running = [asyncio.create_task(duty.run(), name=duty.name) for duty in self.duties]
        try:
            yield self
        finally:
            await self.stop()

    async def stop(self) -> None:
        for duty in self.duties:
            duty.stop()
        if self._running:
            await asyncio.wait(self._running)
            self._running = []
            for duty in self.duties:
                await duty.close()


class Chain:
    """One database, one bus, and the table that handlers have their effects in."""

    def __init__(self, database: Database, world: BusWorld, config: EventsConfig = FAST) -> None:
        self.database = database
        self.world = world
        self.config = config
        self.prefix = world.topic.removesuffix(TOPIC)
        self.outbox = Outbox(database, prefix=self.prefix, partitions=config.partitions)

    async def instance(self, name: str = "one", *, lease_ms: Millis = LEASE_MS) -> Instance:
        bus = await self._bus(name, lease_ms)
        return Instance(name, Events(self.database, bus, self.config, self.outbox), lease_ms=lease_ms)

    async def _bus(self, name: str, lease_ms: Millis) -> Bus:
        bus = await self.world.bus(name, lease_ms)
        return LocalBus(self.database, partitions=8, lease_ms=lease_ms) if isinstance(bus, LocalBus) else bus

    async def publish(self, *events: Event) -> list[str]:
        return await self.outbox.publish(*events)

    def event(self, key: str, number: int, **more: Any) -> Event:
        return Event(event_type=TYPE, aggregate_id=key, topic=self.world.topic, payload={"number": number}, **more)

    def effect(self, event: Event, consumer: str = "mail") -> Callable[[Connection], None]:
        def write(connection: Connection) -> None:
            connection.execute(
                insert(EFFECTS).values(
                    consumer=consumer, event_id=event.event_id, key=event.key, number=event.payload["number"]
                )
            )

        return write

    async def effects(self, consumer: str = "mail") -> dict[str, list[int]]:
        """The numbers of each key, in the order of their commits."""
        query = select(EFFECTS.c.key, EFFECTS.c.number).where(EFFECTS.c.consumer == consumer).order_by(EFFECTS.c.seq)
        rows = await self.database.read(lambda connection: connection.execute(query).all())
        found: dict[str, list[int]] = {}
        for key, number in rows:
            found.setdefault(key, []).append(number)
        return found

    async def count(self, consumer: str = "mail") -> int:
        return sum(map(len, (await self.effects(consumer)).values()))

    async def until_count(self, count: int, consumer: str = "mail") -> None:
        async def is_there() -> bool:
            return await self.count(consumer) >= count

        await until(is_there, f"there are {count} effects")

    async def inbox(self, **where: Any) -> list[Any]:
        query = select(inbox).order_by(inbox.c.seq)
        for name, value in where.items():
            query = query.where(inbox.c[name] == value)
        return list(await self.database.read(lambda connection: connection.execute(query).all()))

    async def outbox_rows(self, **where: Any) -> list[Any]:
        query = select(outbox).order_by(outbox.c.seq)
        for name, value in where.items():
            query = query.where(outbox.c[name] == value)
        return list(await self.database.read(lambda connection: connection.execute(query).all()))


@asynccontextmanager
async def chain_on(world: BusWorld, url: str) -> AsyncGenerator[Chain]:
    async with opened(Database(url)) as database:
        await database.write(lambda connection: EFFECTS.create(connection))
        yield Chain(database, world)
