"""The Kafka bus on a real broker: `make test-kafka` fetches it. Elsewhere these tests are skipped with the reason."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Generator, Sequence
from itertools import count

import pytest
from tests.kafka.real_kafka import RealKafka, require_or_skip
from tests.opening import opened

from rota.errors import BusAway, InvalidInput
from rota.events.buses.base import BusReader, Message, Outgoing, Place, Refused
from rota.events.buses.kafka import KafkaBus
from rota.events.buses.kafka.sender import SEND_SECONDS
from rota.events.buses.kafka.threads import CLOSE_SECONDS
from rota.testing.waiting import PATIENCE, until

PROTOCOLS = ("classic", "consumer")
PARTITIONS = 16
LONG = 2 * PATIENCE

_numbers = count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[RealKafka]:
    """A broker that runs. Whoever stops it starts it again."""
    require_or_skip()
    with RealKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A topic of the test's own, which is not there yet. Its consumer is called like it."""
    return f"shop.order-{next(_numbers)}"


@pytest.fixture(autouse=True)
def _no_threads_are_left() -> Generator[None]:
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("rota-kafka-")]


def message(topic: str, key: str, value: str) -> Outgoing:
    return Outgoing(value, topic, 0, key, {"trace": value}, value.encode())


async def publish_numbers(bus: KafkaBus, topic: str, keys: int, numbers: Collection[int]) -> None:
    """For each key these numbers, as a relay does it: one of each key at a time, again until the bus has it."""
    for number in numbers:
        waiting = [message(topic, f"key-{key}", str(number)) for key in range(keys)]
        async with asyncio.timeout(LONG):
            while waiting:
                waiting = await _not_taken(bus, waiting)


async def _not_taken(bus: KafkaBus, group: Sequence[Outgoing]) -> list[Outgoing]:
    try:
        answers = await bus.publish(group)
    except BusAway:
        return list(group)
    assert not any(isinstance(answer, Refused) for answer in answers)
    return [each for each, answer in zip(group, answers, strict=True) if answer is not None]


class Seen:
    """What was read, by key; what came again is not counted twice, but must not come before its predecessors."""

    def __init__(self) -> None:
        self.values: dict[str, list[str]] = defaultdict(list)

    def add(self, messages: Sequence[Message]) -> None:
        for each in messages:
            value = each.value.decode()
            if value not in self.values[each.key]:
                self.values[each.key].append(value)

    def count(self) -> int:
        return sum(len(values) for values in self.values.values())

    def is_in_order(self) -> bool:
        return all(values == sorted(values, key=int) for values in self.values.values())


async def read(reader: BusReader, wanted: int, seen: Seen | None = None) -> Seen:
    """So many different messages, each committed, whatever happens to the broker meanwhile."""
    seen = seen or Seen()

    async def are_there() -> bool:
        try:
            messages = await reader.fetch(100, 0.2)
        except BusAway:
            return False
        seen.add(messages)
        await reader.commit({each.place: each.offset for each in messages})
        return seen.count() >= wanted

    await until(are_there, f"{wanted} messages were read", seconds=LONG)
    return seen


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_topic_is_made_and_its_keys_keep_their_order(broker: RealKafka, topic: str, protocol: str) -> None:
    async with opened(KafkaBus(broker.url(protocol), partitions=PARTITIONS)) as bus:
        reader = await bus.reader(topic, [topic], instance="one")
        await until(lambda: len(reader.places()) == PARTITIONS, "the reader has all places")
        await publish_numbers(bus, topic, 40, range(5))
        seen = await read(reader, 200)
        assert seen.is_in_order()
        assert len(seen.values) == 40
        assert await bus.lag(topic, [topic, "no.such"]) == {topic: 0, "no.such": 0}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_two_readers_share_the_places_and_hand_them_over(broker: RealKafka, topic: str, protocol: str) -> None:
    async with opened(KafkaBus(broker.url(protocol), partitions=4)) as bus:
        one = await bus.reader(topic, [topic], instance="one")
        await until(lambda: len(one.places()) == 4, "the first reader has all places")
        two = await bus.reader(topic, [topic], instance="two")
        await until(lambda: len(one.places()) == len(two.places()) == 2, "both have half of the places", seconds=LONG)
        assert not set(one.places()) & set(two.places())
        await publish_numbers(bus, topic, 40, range(3))
        mine: list[Message] = []
        others = Seen()

        async def all_is_read() -> bool:
            mine.extend(await one.fetch(100, 0.05))
            others.add(await two.fetch(100, 0.05))
            return len(mine) + others.count() >= 120

        await until(all_is_read, "both have read what is theirs")
        assert {each.place for each in mine} <= set(one.places())
        await one.close()
        await until(lambda: len(two.places()) == 4, "the second reader has all places", seconds=LONG)
        # Nothing was committed: what the first one had comes again, and is in order.
        assert (await read(two, 120, others)).is_in_order()


async def test_only_what_is_too_large_itself_is_refused(broker: RealKafka, topic: str) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    limits = {"max.message.bytes": "10000"}
    made = AdminClient({"bootstrap.servers": broker.servers})
    wanted = NewTopic(topic, 1, 1, config=limits)
    made.create_topics([wanted])[topic].result(PATIENCE)  # pyright: ignore[reportUnknownMemberType]
    async with opened(KafkaBus(broker.url())) as bus:
        # Together they are larger than what the broker takes at once; each by itself is not, but for one.
        sizes = [2_000] * 10 + [50_000] + [2_000] * 10
        group = [Outgoing("e", topic, 0, f"key-{key}", {}, b"x" * size) for key, size in enumerate(sizes)]
        answers = await bus.publish(group)
        assert [key for key, answer in enumerate(answers) if isinstance(answer, Refused)] == [10]
        assert answers.count(None) == 20
        assert await bus.lag(topic, [topic]) == {topic: 20}


async def test_a_name_that_no_topic_can_have_is_refused(broker: RealKafka) -> None:
    async with opened(KafkaBus(broker.url())) as bus:
        (answer,) = await bus.publish([message("no topic!", "a", "1")])
        assert isinstance(answer, Refused)
        assert "no topic!" in answer.reason


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_consumer_is_set_back_while_it_is_stopped(broker: RealKafka, topic: str, protocol: str) -> None:
    async with opened(KafkaBus(broker.url(protocol), partitions=4)) as bus:
        await publish_numbers(bus, topic, 10, range(2))
        between = await _a_later_millisecond()
        await publish_numbers(bus, topic, 10, range(2, 5))
        reader = await bus.reader(topic, [topic], instance="one")
        await read(reader, 50)
        with pytest.raises(InvalidInput, match="Stop all of its instances"):
            await bus.replay(topic, [topic], between)
        await reader.close()
        assert await bus.lag(topic, [topic]) == {topic: 0}
        await bus.replay(topic, [topic], between)
        assert await bus.lag(topic, [topic]) == {topic: 30}
        again = await read(await bus.reader(topic, [topic], instance="two"), 30)
        assert set(again.values["key-0"]) == {"2", "3", "4"}


async def _a_later_millisecond() -> int:
    """A time that is later than all that was published, and earlier than all that will be."""
    began = int(time.time() * 1_000)
    await until(lambda: time.time() * 1_000 > began + 2, "time goes on")
    return began + 2


async def test_a_broker_that_was_away_for_a_while_has_everything_in_the_end(broker: RealKafka, topic: str) -> None:
    async with opened(KafkaBus(broker.url("classic"), partitions=4)) as bus:
        reader = await bus.reader(topic, [topic], instance="one")
        await publish_numbers(bus, topic, 10, range(3))
        seen = await read(reader, 30)
        await asyncio.to_thread(broker.stop)
        try:
            await _both_sides_say_so(bus, reader, topic)
        finally:
            await asyncio.to_thread(broker.start)
        await publish_numbers(bus, topic, 10, range(3, 6))
        assert (await read(reader, 60, seen)).is_in_order()

        async def all_is_committed() -> bool:
            return await bus.lag(topic, [topic]) == {topic: 0}

        await until(all_is_committed, "all is committed")


async def _both_sides_say_so(bus: KafkaBus, reader: BusReader, topic: str) -> None:
    began = time.monotonic()
    with pytest.raises(BusAway, match="is away"):
        await bus.publish([message(topic, "away", "0")])
    assert time.monotonic() - began < SEND_SECONDS + 4

    async def fetch_says_so() -> bool:
        try:
            await reader.fetch(10, 0.2)
        except BusAway:
            return True
        return False

    await until(fetch_says_so, "a fetch says that the broker is away")
    await reader.commit({Place(topic, 0): 0})  # harmless


async def test_a_broker_that_is_killed_loses_nothing_and_mixes_nothing(broker: RealKafka, topic: str) -> None:
    async with opened(KafkaBus(broker.url("consumer"), partitions=4)) as bus:
        reader = await bus.reader(topic, [topic], instance="one")
        await publish_numbers(bus, topic, 10, range(2))
        publishing = asyncio.create_task(publish_numbers(bus, topic, 10, range(2, 200)))
        seen = await read(reader, 100)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        await read(reader, 2_000, seen)
        await publishing
        assert seen.is_in_order()
        assert set(map(len, seen.values.values())) == {200}


async def test_a_bus_whose_broker_is_gone_closes_all_the_same(broker: RealKafka, topic: str) -> None:
    async with opened(KafkaBus(broker.url(), partitions=4)) as bus:
        reader = await bus.reader(topic, [topic], instance="one")
        await publish_numbers(bus, topic, 4, range(1))
        await read(reader, 4)
        await asyncio.to_thread(broker.kill)
        try:
            began = time.monotonic()
            await bus.close()
            assert time.monotonic() - began < CLOSE_SECONDS + 1
        finally:
            await asyncio.to_thread(broker.start)
