"""Every bus there is, so that one suite holds for all of them."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import pytest
from tests.opening import opened

from rota.clock import Millis
from rota.database import Database
from rota.errors import BusAway
from rota.events.buses.base import Bus, BusReader, Message, Outgoing, Place
from rota.events.envelope import Event, decode, encode, partition_of, payload_json
from rota.events.outbox import Outbox
from rota.testing.redis_servers import RedisServer
from rota.testing.servers import ServerAbsent, require_server
from rota.testing.waiting import until

if TYPE_CHECKING:  # it is built on what is here
    from tests.events.chain import Chain

TOPIC = "shop.order"
LEASE_MS: Millis = 5_000
"""Long enough that a busy machine keeps it."""
SHORT_MS: Millis = 500
"""The lease of an instance that is to lose it."""
Ability = Literal["death", "outage", "replay"]


def number_of(message: Message) -> int:
    event = decode(message.value, topic=message.place.topic, key=message.key, headers=message.headers)
    assert isinstance(event.payload, int)
    return event.payload


def by_key(messages: Sequence[Message]) -> dict[str, list[int]]:
    """The numbers of each key, in the order in which they came."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for message in messages:
        found[message.key].append(number_of(message))
    return dict(found)


def without_repeats(numbers: Sequence[int]) -> list[int]:
    """In the order in which each came first: a message may come again, but never before its predecessors did."""
    return list(dict.fromkeys(numbers))


def done_with(messages: Sequence[Message]) -> dict[Place, Any]:
    """What is to be committed when all of these are done."""
    return {message.place: message.offset for message in messages}


async def fetched(reader: BusReader, count: int, *, limit: int = 100) -> list[Message]:
    """At least so many messages, sooner or later."""
    found: list[Message] = []

    async def look() -> bool:
        with suppress(BusAway):  # on a busy machine
            found.extend(await reader.fetch(limit, 0.5))
        return len(found) >= count

    await until(look, f"{count} messages are there")
    return found


async def nothing_comes(reader: BusReader, seconds: float = 0.3) -> bool:
    return not await reader.fetch(100, seconds)


class BusWorld(ABC):
    """One kind of bus, on a real server, with as many instances as a test wants."""

    abilities: ClassVar[frozenset[Ability]] = frozenset({"death", "replay"})
    partitions = 8

    def __init__(self) -> None:
        self.topic = TOPIC
        self._stack = AsyncExitStack()
        self._buses: dict[tuple[str, Millis], Bus] = {}

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[BusWorld]:
        async with self._stack:
            yield self

    def needs(self, ability: Ability) -> None:
        """Skip the test where this cannot be tried."""
        if ability not in self.abilities:
            pytest.skip(f"{type(self).__name__} has no way to try {ability} here")

    @abstractmethod
    async def make(self, lease_ms: Millis) -> Bus:
        """One more bus, as another process would have it, not open yet."""

    async def bus(self, instance: str = "publisher", lease_ms: Millis = LEASE_MS) -> Bus:
        """The bus of an instance."""
        if (instance, lease_ms) not in self._buses:
            made = await self.make(lease_ms)
            self._buses[instance, lease_ms] = await self._stack.enter_async_context(opened(made))
        return self._buses[instance, lease_ms]

    async def reader(
        self,
        instance: str = "one",
        *,
        consumer: str = "mail",
        topics: Collection[str] = (),
        lease_ms: Millis = LEASE_MS,
    ) -> BusReader:
        bus = await self.bus(instance, lease_ms)
        reader = await bus.reader(consumer, topics or [self.topic], instance=instance)
        self._stack.push_async_callback(reader.close)
        return reader

    async def alone(self, instance: str = "one", **more: Any) -> BusReader:
        """A reader that has all places."""
        reader = await self.reader(instance, **more)
        await until(lambda: len(reader.places()) >= self.partitions, f"{instance} has all places")
        return reader

    async def publish(self, *events: Event) -> None:
        """Hand them over as a relay does: one of each key at a time."""
        waiting: defaultdict[str, list[Event]] = defaultdict(list)
        for event in events:
            waiting[event.key or event.aggregate_id].append(event)
        bus = await self.bus()
        while waiting:
            group = [self.outgoing(queue.pop(0)) for queue in waiting.values()]
            assert await bus.publish(group) == [None] * len(group)
            waiting = defaultdict(list, {key: queue for key, queue in waiting.items() if queue})

    def event(
        self, key: str, number: int, *, topic: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Event:
        """The event of a key with this number."""
        return Event(
            event_type="Shop.Order.Created",
            aggregate_id=key,
            key=key,
            topic=topic or self.topic,
            payload=number,
            event_id=str(uuid.uuid4()),
            headers=headers or {},
        )

    def outgoing(self, event: Event) -> Outgoing:
        key = event.key or event.aggregate_id
        assert event.event_id is not None
        assert event.topic is not None
        headers = {**event.headers, "event_id": event.event_id, "event_type": event.event_type}
        value = encode(event, payload_json(event.payload))
        return Outgoing(event.event_id, event.topic, partition_of(key, self.partitions), key, headers, value)

    async def commit(self, reader: BusReader, done: Mapping[Place, Any]) -> None:
        await reader.commit(done)

    async def lag(self, consumer: str = "mail") -> int:
        return (await (await self.bus()).lag(consumer, [self.topic]))[self.topic]

    async def replay(self, since: int = 0, consumer: str = "mail") -> None:
        await (await self.bus()).replay(consumer, [self.topic], since)

    async def die(self, reader: BusReader) -> None:
        """From now on nobody keeps what is this reader's, and nobody gives it back."""
        keeper: asyncio.Task[None] = cast("Any", reader)._keeper
        keeper.cancel()
        await asyncio.wait([keeper])

    async def stop(self) -> None:
        """The server goes away."""
        raise NotImplementedError

    async def start(self) -> None:
        """It is back."""
        raise NotImplementedError


class LocalWorld(BusWorld):
    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._outbox: Outbox | None = None

    async def make(self, lease_ms: Millis) -> Bus:
        from rota.events.buses.local import LocalBus

        database = await self._stack.enter_async_context(opened(Database(self._url)))
        if self._outbox is None:
            self._outbox = Outbox(database, partitions=self.partitions)
        return LocalBus(database, partitions=self.partitions, lease_ms=lease_ms)

    async def publish(self, *events: Event) -> None:
        from rota.events.buses.local import LocalBus

        bus = await self.bus()
        assert isinstance(bus, LocalBus)
        assert self._outbox is not None
        await self._outbox.publish(*events)
        while await bus.place(500):
            pass

    async def commit(self, reader: BusReader, done: Mapping[Place, Any]) -> None:
        assert self._outbox is not None
        await self._outbox.database.write(lambda connection: reader.commit_within(connection, done))
        await reader.commit(done)


class RedisWorld(BusWorld):
    abilities = frozenset({"death", "outage", "replay"})

    def __init__(self, server: RedisServer) -> None:
        super().__init__()
        self.server = server

    async def make(self, lease_ms: Millis) -> Bus:
        from rota.events.buses.redis import RedisBus

        return RedisBus(self.server.url, partitions=self.partitions, lease_ms=lease_ms)

    async def stop(self) -> None:
        await asyncio.to_thread(self.server.stop)

    async def start(self) -> None:
        await asyncio.to_thread(self.server.start)


class KafkaWorld(BusWorld):
    """The cluster inside the process, which can neither go away nor set a consumer back."""

    abilities = frozenset()
    partitions = 4

    def __init__(self, url: str, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self._url = url

    async def make(self, lease_ms: Millis) -> Bus:
        from rota.events.buses.kafka import KafkaBus

        return KafkaBus(self._url, partitions=self.partitions)


def _look_often(request: pytest.FixtureRequest, setting: str) -> None:
    """Instances look often who is there, so that no test waits for a hand-over."""
    request.getfixturevalue("monkeypatch").setattr(setting, 0.05)


def _local(request: pytest.FixtureRequest, server: str) -> BusWorld:
    pytest.importorskip("rota.events.buses.local", reason="There is no local bus yet")
    _look_often(request, "rota.events.buses.local.UNSETTLED_SECONDS")
    return LocalWorld(str(request.getfixturevalue(server)))


def _redis(request: pytest.FixtureRequest, server: str) -> BusWorld:
    pytest.importorskip("redis", reason="The driver of Redis is not installed")
    _look_often(request, "rota.events.buses.redis.ROUND_SECONDS")
    running = request.getfixturevalue(server)
    if isinstance(running, ServerAbsent):
        require_server(running)
    assert isinstance(running, RedisServer)
    running.ask("FLUSHALL")
    return RedisWorld(running)


def _redis7(request: pytest.FixtureRequest) -> BusWorld:
    if shutil.which("redis-server") is None:
        require_server(ServerAbsent("There is no redis-server of the system, and the wheel has 6.2 only: make redis"))
    return _redis(request, "_redis_system")


@pytest.fixture(scope="session")
def _kafka() -> Generator[Any]:
    pytest.importorskip("confluent_kafka", reason="The driver of Kafka is not installed")
    from tests.events.kafka_servers import kafka_cluster

    with kafka_cluster() as cluster:
        yield cluster


def _kafka_world(request: pytest.FixtureRequest) -> BusWorld:
    cluster = request.getfixturevalue("_kafka")
    # Topics of its own: what a test leaves behind is nobody else's. The cluster makes none by itself.
    prefix = f"{uuid.uuid4().hex[:8]}."
    topic = cluster.make(f"{prefix}{TOPIC}")
    for other in (f"{topic}.DLT", f"{prefix}elsewhere"):
        cluster.make(other)
    return KafkaWorld(cluster.url(group_protocol="consumer", fetch_wait_max_ms="10"), topic)


WORLDS: Mapping[str, Callable[[pytest.FixtureRequest], BusWorld]] = {
    "local-sqlite": lambda request: _local(request, "sqlite_url"),
    "local-postgres": lambda request: _local(request, "postgres_url"),
    "redis6": lambda request: _redis(request, "redis"),
    "redis7": _redis7,
    "kafka": _kafka_world,
}


@pytest.fixture(params=list(WORLDS))
async def bus(request: pytest.FixtureRequest) -> AsyncIterator[BusWorld]:
    """Each kind of bus."""
    async with WORLDS[str(request.param)](request).opened() as world:
        yield world


@pytest.fixture
async def chain(bus: BusWorld, request: pytest.FixtureRequest) -> AsyncIterator[Chain]:
    """The whole way of an event on each bus; its database is PostgreSQL where the bus lies there."""
    from tests.events.chain import chain_on

    is_postgres = "postgres" in request.node.callspec.id
    url = str(request.getfixturevalue("postgres_url" if is_postgres else "sqlite_url"))
    async with chain_on(bus, url) as chain:
        yield chain
