"""The Kafka bus on the cluster that its driver brings for tests. What that cannot do is tried in `tests/kafka`."""

# pyright: reportPrivateUsage=false
# What its threads hold is seen from nowhere else.

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator, Sequence
from itertools import count

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition
from tests.events.kafka_servers import KafkaCluster, kafka_cluster

from rota.errors import BusAway, InvalidConfig
from rota.events.buses.base import BusReader, Message, Outgoing, Place, Refused
from rota.events.buses.kafka import KafkaBus
from rota.events.buses.kafka.address import consumer_settings, producer_settings
from rota.events.buses.kafka.reader import Reader
from rota.events.buses.kafka.sender import SEND_SECONDS
from rota.events.buses.kafka.threads import CLOSE_SECONDS
from rota.testing.waiting import until

PROTOCOLS = ("classic", "consumer")
TOPIC = "shop.order"
PARTITIONS = 4
"""So many has each topic of the cluster."""

_numbers = count(1)


@pytest.fixture(scope="module")
def cluster() -> Generator[KafkaCluster]:
    with kafka_cluster() as running:
        yield running


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """A topic of the test's own. Its consumer is called like it: the cluster remembers each."""
    return cluster.make(f"{TOPIC}-{next(_numbers)}")


@pytest.fixture
async def bus(cluster: KafkaCluster) -> AsyncGenerator[KafkaBus]:
    async with _bus(cluster, "consumer") as running:
        yield running


@pytest.fixture(autouse=True)
def _no_threads_are_left() -> Generator[None]:
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("rota-kafka-")]


class _bus:  # noqa: N801 - it is used like a function
    """A bus that is open in the block."""

    def __init__(self, cluster: KafkaCluster, protocol: str) -> None:
        # The cluster does not tell of what is written while somebody waits: the wait is made short.
        self._bus = KafkaBus(cluster.url(group_protocol=protocol, fetch_wait_max_ms="10"))

    async def __aenter__(self) -> KafkaBus:
        await self._bus.open()
        return self._bus

    async def __aexit__(self, *_: object) -> None:
        await self._bus.close()


def message(topic: str, key: str, value: str, **headers: str) -> Outgoing:
    return Outgoing(value, topic, 0, key, headers, value.encode())


async def publish_numbers(bus: KafkaBus, topic: str, *, keys: int = 10, each: int = 5) -> None:
    """For each key the numbers from 0 on, in groups that have no key twice."""
    for number in range(each):
        answers = await bus.publish([message(topic, f"key-{key}", str(number)) for key in range(keys)])
        assert answers == [None] * keys


async def read(reader: BusReader, wanted: int) -> Sequence[Message]:
    """So many messages."""
    got: list[Message] = []

    async def are_there() -> bool:
        got.extend(await reader.fetch(100, 0.1))
        return len(got) >= wanted

    await until(are_there, f"{wanted} messages were read")
    return got


def values_by_key(messages: Sequence[Message]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for each in messages:
        found[each.key].append(each.value.decode())
    return found


def last_offsets(messages: Sequence[Message]) -> dict[Place, int]:
    return {each.place: each.offset for each in messages}


# --- what travels ---


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_messages_of_a_key_come_in_their_order(cluster: KafkaCluster, topic: str, protocol: str) -> None:
    async with _bus(cluster, protocol) as bus:
        await publish_numbers(bus, topic)
        reader = await bus.reader(topic, [topic], instance="one")
        got = await read(reader, 50)
    assert values_by_key(got) == {f"key-{key}": ["0", "1", "2", "3", "4"] for key in range(10)}
    assert len({each.place for each in got}) > 1


async def test_key_headers_and_value_arrive_as_they_were_sent(bus: KafkaBus, topic: str) -> None:
    sent = Outgoing("e1", topic, 3, "Schlüssel", {"trace": "a=b", "name": "Zoë"}, b'{"a":1}\x00\xff')
    assert await bus.publish([sent]) == [None]
    reader = await bus.reader(topic, [topic], instance="one")
    (got,) = await read(reader, 1)
    assert (got.key, got.headers, got.value) == (sent.key, sent.headers, sent.value)
    assert got.place.topic == topic


async def test_what_has_no_key_and_no_headers_is_read_too(cluster: KafkaCluster, bus: KafkaBus, topic: str) -> None:
    other = Producer({"bootstrap.servers": cluster.servers})
    other.produce(topic, None)
    other.flush(30)
    reader = await bus.reader(topic, [topic], instance="one")
    (got,) = await read(reader, 1)
    assert (got.key, got.headers, got.value) == ("", {}, b"")


async def test_an_empty_group_is_sent_at_once(bus: KafkaBus) -> None:
    assert await bus.publish([]) == []


async def test_many_groups_travel_side_by_side(bus: KafkaBus, topic: str) -> None:
    groups = [[message(topic, f"{group}-{key}", "v") for key in range(20)] for group in range(20)]
    answers = await asyncio.gather(*(bus.publish(group) for group in groups))
    assert answers == [[None] * 20] * 20
    assert await bus.lag("nobody", [topic]) == {topic: 400}


async def test_what_is_too_large_is_refused_and_its_neighbours_are_sent(bus: KafkaBus, topic: str) -> None:
    large = Outgoing("e", topic, 0, "b", {}, b"x" * 2_000_000)
    first, refused, last = await bus.publish([message(topic, "a", "1"), large, message(topic, "c", "2")])
    assert (first, last) == (None, None)
    assert isinstance(refused, Refused)
    assert "2,000,000 bytes" in refused.reason
    reader = await bus.reader(topic, [topic], instance="one")
    assert sorted(each.key for each in await read(reader, 2)) == ["a", "c"]


async def test_a_topic_that_can_never_be_is_refused(bus: KafkaBus) -> None:
    (answer,) = await bus.publish([message("x" * 600, "a", "1")])
    assert isinstance(answer, Refused)


# --- who reads what ---


async def test_two_readers_share_the_places_and_none_gets_what_is_the_others(cluster: KafkaCluster, topic: str) -> None:
    async with _bus(cluster, "consumer") as bus:
        one = await bus.reader(topic, [topic], instance="one")
        await until(lambda: len(one.places()) == PARTITIONS, "the first reader has all places")
        two = await bus.reader(topic, [topic], instance="two")
        await until(
            lambda: len(one.places()) == len(two.places()) == PARTITIONS // 2, "both readers have half of the places"
        )
        assert not set(one.places()) & set(two.places())
        await publish_numbers(bus, topic, keys=40, each=3)
        got: dict[BusReader, list[Message]] = {one: [], two: []}

        async def all_is_read() -> bool:
            for reader, messages in got.items():
                messages.extend(await reader.fetch(100, 0.05))
            return sum(map(len, got.values())) >= 120

        await until(all_is_read, "all messages were read")
        for reader, messages in got.items():
            assert {each.place for each in messages} <= set(reader.places())
            assert all(values == ["0", "1", "2"] for values in values_by_key(messages).values())


async def test_a_reader_that_closes_hands_over_and_what_was_not_committed_comes_again(
    cluster: KafkaCluster, topic: str
) -> None:
    async with _bus(cluster, "consumer") as bus:
        one = await bus.reader(topic, [topic], instance="one")
        await publish_numbers(bus, topic)
        seen = await read(one, 50)
        two = await bus.reader(topic, [topic], instance="two")
        await until(two.places, "the second reader has a place")
        await one.close()
        assert not one.places()
        await until(lambda: len(two.places()) == PARTITIONS, "the second reader has all places")
        assert values_by_key(await read(two, 50)) == values_by_key(seen)


async def test_what_was_committed_does_not_come_again(cluster: KafkaCluster, topic: str) -> None:
    async with _bus(cluster, "consumer") as bus:
        await publish_numbers(bus, topic)
        reader = await bus.reader(topic, [topic], instance="one")
        got = await read(reader, 50)
        done = last_offsets(got)
        half, rest = sorted(done)[:2], sorted(done)[2:]
        await reader.commit({place: done[place] for place in half})
        await reader.close()
        left = sum(each.place in rest for each in got)
        assert await bus.lag(topic, [topic]) == {topic: left}
    async with _bus(cluster, "consumer") as bus:
        again = await read(await bus.reader(topic, [topic], instance="one"), left)
        assert {each.place for each in again} <= set(rest)
        assert len(again) == left


async def test_a_commit_of_the_last_moment_is_made_before_the_reader_leaves(bus: KafkaBus, topic: str) -> None:
    await publish_numbers(bus, topic)
    reader = await bus.reader(topic, [topic], instance="one")
    done = last_offsets(await read(reader, 50))
    committing = asyncio.create_task(reader.commit(done))
    await asyncio.sleep(0)
    await reader.close()
    await committing
    assert await bus.lag(topic, [topic]) == {topic: 0}


async def test_nothing_is_committed_of_a_place_that_is_somebody_elses(bus: KafkaBus, topic: str) -> None:
    await publish_numbers(bus, topic)
    reader = await bus.reader(topic, [topic], instance="one")
    await read(reader, 50)
    await reader.commit({Place("elsewhere", 0): 7, Place(topic, 99): 7})
    assert await bus.lag(topic, [topic]) == {topic: 50}


async def test_what_was_read_ahead_of_a_place_is_dropped_when_it_goes(bus: KafkaBus, topic: str) -> None:
    await publish_numbers(bus, topic, keys=40)
    one = await bus.reader(topic, [topic], instance="one")
    await until(lambda: read_ahead(one) == 200, "all was read ahead")
    two = await bus.reader(topic, [topic], instance="two")
    await until(lambda: len(two.places()) == PARTITIONS // 2, "half of the places went over")
    left = read_ahead(one)
    assert left < 200
    assert {each.place for each in await read(one, left)} <= set(one.places())
    assert {each.place for each in await read(two, 200 - left)} <= set(two.places())
    assert read_ahead(one) == read_ahead(two) == 0


# --- how fast it is read ---


async def test_a_reader_that_is_not_fetched_from_reads_no_further_and_keeps_its_places(
    bus: KafkaBus, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.events.buses.kafka.reader.ROOM", 20)
    monkeypatch.setattr("rota.events.buses.kafka.reader.READ_AT_ONCE", 5)
    monkeypatch.setattr("rota.events.buses.kafka.reader.REST_SECONDS", 0.05)
    await publish_numbers(bus, topic, keys=40)
    reader = await bus.reader(topic, [topic], instance="one")
    await until(lambda: inside(reader)._held and inside(reader)._held == reader.places(), "the reader reads no further")
    assert read_ahead(reader) < 30
    assert len(reader.places()) == PARTITIONS
    got = await read(reader, 200)
    assert values_by_key(got) == {f"key-{key}": ["0", "1", "2", "3", "4"] for key in range(40)}


async def test_large_messages_fill_a_reader_too(bus: KafkaBus, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.events.buses.kafka.reader.ROOM_BYTES", 10_000)
    monkeypatch.setattr("rota.events.buses.kafka.reader.READ_AT_ONCE", 1)
    monkeypatch.setattr("rota.events.buses.kafka.reader.REST_SECONDS", 0.0)
    for _ in range(6):
        await bus.publish([Outgoing("e", topic, 0, "a", {}, b"x" * 5_000)])
    reader = await bus.reader(topic, [topic], instance="one")
    await until(lambda: inside(reader)._held, "the reader reads no further")
    assert read_ahead(reader) == 2
    assert len(await read(reader, 6)) == 6


async def test_a_place_that_is_paused_is_passed_over_until_it_is_not(bus: KafkaBus, topic: str) -> None:
    await publish_numbers(bus, topic, keys=40, each=1)
    reader = await bus.reader(topic, [topic], instance="one")
    await until(lambda: read_ahead(reader) == 40, "all was read ahead")
    held, *others = sorted(reader.places())
    reader.pause([held])
    await publish_numbers(bus, topic, keys=40, each=1)
    got: list[Message] = []

    async def the_others_are_read() -> bool:
        got.extend(await reader.fetch(100, 0.05))
        return read_ahead(reader) + len(got) > 40 and len({each.place for each in got}) == len(others)

    await until(the_others_are_read, "the others were read")
    assert held not in {each.place for each in got}
    reader.pause(others)
    await until(lambda: inside(reader)._held == frozenset(others), "the others are paused instead")
    reader.pause([])
    got += await read(reader, 80 - len(got))
    assert len(got) == 80
    for place in (held, *others):
        offsets = [each.offset for each in got if each.place == place]
        assert offsets == sorted(set(offsets))


async def test_a_fetch_takes_of_every_place_though_one_has_much(bus: KafkaBus, topic: str) -> None:
    await publish_numbers(bus, topic, keys=1, each=30)
    await publish_numbers(bus, topic, keys=40, each=1)
    reader = await bus.reader(topic, [topic], instance="one")
    await until(lambda: read_ahead(reader) == 70, "all was read ahead")
    assert {each.place for each in await reader.fetch(PARTITIONS, 1)} == set(reader.places())


async def test_a_fetch_that_waits_ends_when_it_is_woken(bus: KafkaBus, topic: str) -> None:
    reader = await bus.reader(topic, [topic], instance="one")
    waiting = asyncio.create_task(reader.fetch(10, 600))
    await until(reader.places, "the reader has places")
    reader.wake()
    assert await waiting == []
    reader.wake()
    assert await reader.fetch(10, 600) == []


# --- brokers that are away ---


@pytest.fixture
def nobody() -> Generator[str]:
    """An address where nobody listens, and nobody will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"kafka://127.0.0.1:{taken.getsockname()[1]}"


async def test_brokers_that_are_away_are_said_to_be(nobody: str) -> None:
    bus = KafkaBus(nobody)
    await bus.open()
    reader = await bus.reader("orders", [TOPIC], instance="one")
    began = time.monotonic()
    with pytest.raises(BusAway, match="tried again"):
        await bus.publish([message(TOPIC, "a", "1"), message(TOPIC, "b", "2")])
    assert time.monotonic() - began < SEND_SECONDS + 4
    with pytest.raises(BusAway, match="is away"):
        await bus.lag("orders", [TOPIC])
    with pytest.raises(BusAway, match="is away"):
        await bus.replay("orders", [TOPIC], 0)

    async def fetch_says_so() -> bool:
        try:
            return bool(await reader.fetch(1, 0.2))
        except BusAway as away:
            return "refused" in str(away)

    await until(fetch_says_so, "a fetch says that the brokers are away")
    await reader.commit({Place(TOPIC, 0): 1})
    began = time.monotonic()
    await bus.close()
    assert time.monotonic() - began < CLOSE_SECONDS + 4


async def test_messages_on_their_way_are_given_up_in_time(
    cluster: KafkaCluster, nobody: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.events.buses.kafka.sender.SEND_SECONDS", 0.5)
    bus = KafkaBus(nobody)
    await bus.open()
    bus._topics._known.add(topic)  # so that nobody is asked before it is sent
    with pytest.raises(BusAway, match="refused"):
        await bus.publish([message(topic, "a", "1")])
    await bus.close()


async def test_a_bus_that_is_closed_lets_go_of_what_is_on_its_way(nobody: str) -> None:
    bus = KafkaBus(nobody)
    await bus.open()
    assert bus._sender is not None
    bus._topics._known.add(TOPIC)
    sending = asyncio.create_task(bus.publish([message(TOPIC, "a", "1")]))
    sender = bus._sender
    await until(lambda: sender._parcels, "the message is on its way")
    began = time.monotonic()
    await bus.close()
    assert time.monotonic() - began < CLOSE_SECONDS + 4
    with pytest.raises(BusAway):
        await sending
    with pytest.raises(BusAway, match="not open"):
        await bus.publish([message(TOPIC, "a", "1")])


async def test_a_producer_with_a_fatal_error_is_replaced(bus: KafkaBus, topic: str) -> None:
    assert bus._sender is not None
    await publish_numbers(bus, topic, keys=2, each=1)
    before = bus._sender._producer
    # The cluster for tests has no way to cause one.
    bus._sender._hear(KafkaError(KafkaError._FATAL, "the sequence is broken", fatal=True))
    await until(lambda: bus._sender is not None and bus._sender._producer is not before, "there is another producer")
    await publish_numbers(bus, topic, keys=2, each=1)
    assert await bus.lag("nobody", [topic]) == {topic: 4}


async def test_a_consumer_with_a_fatal_error_is_replaced(bus: KafkaBus, topic: str) -> None:
    reader = await bus.reader(topic, [topic], instance="one")
    await until(reader.places, "the reader has places")
    inside(reader)._hear(KafkaError(KafkaError._FATAL, "another one has its name", fatal=True))
    await until(lambda: not reader.places(), "the places were given back")
    await publish_numbers(bus, topic, keys=2, each=1)

    reasons: list[str] = []

    async def is_read() -> bool:
        try:
            return bool(await reader.fetch(10, 0.1))
        except BusAway as away:
            reasons.append(str(away))
            return False

    await until(is_read, "another consumer reads on")
    assert all("another one has its name" in reason for reason in reasons)


async def test_a_commit_that_fails_is_tried_again_by_itself(bus: KafkaBus, topic: str) -> None:
    await publish_numbers(bus, topic, keys=1, each=5)
    reader = await bus.reader(topic, [topic], instance="one")
    ((place, offset),) = last_offsets(await read(reader, 5)).items()
    refused = KafkaError(KafkaError.REBALANCE_IN_PROGRESS)
    inside(reader)._landed(refused, [TopicPartition(place.topic, place.partition, offset + 1)])

    async def nothing_is_left() -> bool:
        return await bus.lag(topic, [topic]) == {topic: 0}

    await until(nothing_is_left, "the commit is made")


# --- the address ---


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("no.such.thing=1", "no.such.thing"),
        ("security.protocol=pigeon", "security.protocol"),
        ("linger.ms=soon", "linger.ms"),
        ("group.protocol=none", "group.protocol"),
        ("group.protocol=consumer&session.timeout.ms=6000", "session.timeout.ms"),
        ("acks=0", "acks"),
        ("enable.auto.commit=true", "enable.auto.commit"),
        ("error_cb=x", "error_cb"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(query: str, named: str) -> None:
    with pytest.raises(InvalidConfig, match=named):
        KafkaBus(f"kafka://broker:9092?{query}")


@pytest.mark.parametrize("url", ["kafka://", "kafka://?linger.ms=1", "kafka://a:9092,,b:9092", "kafka://a:9092/x"])
def test_an_address_without_brokers_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfig, match="kafka://host1:9092,host2:9092"):
        KafkaBus(url)


def test_secrets_are_not_shown() -> None:
    bus = KafkaBus(
        "kafka://ann:hush@a:9092,b:9092?security.protocol=SASL_PLAINTEXT&sasl.mechanism=PLAIN&ssl.key.pem=hush"
    )
    assert bus.name == "kafka://a:9092,b:9092"
    with pytest.raises(InvalidConfig) as refused:
        KafkaBus("kafka://ann:hush@a:9092?sasl.password=hush&no.such.thing=hush")
    assert "hush" not in str(refused.value)
    with pytest.raises(InvalidConfig) as refused:
        KafkaBus("kafka://ann:hush@/x?sasl.password=hush")
    assert "hush" not in str(refused.value)


def test_each_setting_goes_to_the_side_that_knows_it() -> None:
    bus = KafkaBus("kafka://u%40x:p%3Aw@a:9092?group.protocol=consumer&compression.type=lz4&socket.timeout.ms=7000")
    producer = producer_settings(bus._address)
    consumer = consumer_settings(bus._address, "shop-mail", "host-1")
    assert producer["compression.type"] == "lz4"
    assert "compression.type" not in consumer
    assert "group.protocol" not in producer
    assert "partition.assignment.strategy" not in consumer
    assert (consumer["group.id"], consumer["client.id"]) == ("shop-mail", "host-1")
    for side in (producer, consumer):
        assert side["socket.timeout.ms"] == "7000"
        assert (side["sasl.username"], side["sasl.password"]) == ("u@x", "p:w")


def test_without_the_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def finds_nothing(_name: str) -> None: ...

    monkeypatch.setattr("rota.events.buses.kafka.bus.find_spec", finds_nothing)
    with pytest.raises(InvalidConfig, match=r"pip install 'rota\[kafka\]'"):
        KafkaBus("kafka://a:9092")


def test_the_driver_is_not_imported_before_it_is_needed() -> None:
    program = "import sys, rota.events.buses.kafka; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def inside(reader: BusReader) -> Reader:
    assert isinstance(reader, Reader)
    return reader


def read_ahead(reader: BusReader) -> int:
    """How many messages a reader has read and nobody has fetched."""
    with inside(reader)._changed:
        return sum(len(shelf.messages) for shelf in inside(reader)._shelves.values())
