"""What only the Redis bus has: streams, leases, and scripts that look at the lease first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from tests.events.conftest import (
    LEASE_MS,
    SHORT_MS,
    TOPIC,
    WORLDS,
    RedisWorld,
    by_key,
    done_with,
    fetched,
    nothing_comes,
    number_of,
)
from tests.opening import opened

from rota.config.urls import BUS_SCHEMES, check_url
from rota.errors import BusAway, InvalidConfig
from rota.events.buses.base import Bus, BusReader, Message, Outgoing, Place, Refused
from rota.events.buses.redis import MAX_BYTES, RedisBus
from rota.events.envelope import partition_of
from rota.testing.proxy import Proxy
from rota.testing.redis_servers import HOST, RedisCluster, RedisServer, redis_server
from rota.testing.servers import ServerAbsent, require_server
from rota.testing.waiting import PATIENCE, until

KEYS = [f"order-{number}" for number in range(40)]
ONE = Place(TOPIC, partition_of("order-1", RedisWorld.partitions))
STREAM = f"scheduler:events:{{{TOPIC}:{ONE.partition}}}"
LEASE = f"{STREAM}:lease:mail"
OPEN = """
local ids = {}
for at, entry in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1000)) do
  ids[at] = entry[1]
end
return ids
"""
"""Asked for in a script, since the client has an opinion of what this command answers."""


@pytest.fixture(params=["redis6", "redis7"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[RedisWorld]:
    made = WORLDS[str(request.param)](request)
    assert isinstance(made, RedisWorld)
    async with made.opened():
        yield made


@pytest.fixture
def proxy(redis: RedisServer) -> Iterator[Proxy]:
    redis.ask("FLUSHALL")
    with Proxy(HOST, redis.port) as made:
        yield made


def outgoing(key: str, number: int, topic: str = TOPIC, partitions: int = 8) -> Outgoing:
    partition = partition_of(key, partitions)
    return Outgoing(f"{key}/{number}", topic, partition, key, {"number": str(number)}, b"%d" % number)


def plain(messages: list[Message]) -> list[int]:
    return [int(message.value) for message in messages]


def open_in(world: RedisWorld, stream: str = STREAM) -> list[str]:
    """The ids that the group has read and not acknowledged."""
    return cast("list[str]", world.server.ask("EVAL", OPEN, 1, stream, "mail"))


async def has_all(reader: BusReader, count: int = 8) -> BusReader:
    await until(lambda: len(reader.places()) == count, "it has all places")
    return reader


# --- what is open ---------------------------------------------------------------------------------------------------


async def test_open_entries_that_were_removed_are_passed_over(world: RedisWorld) -> None:
    await world.publish(*(world.event("order-1", number) for number in range(5)))
    one = await world.alone("one")
    await fetched(one, 5)
    ids = open_in(world)
    await one.close()
    world.server.ask("XDEL", STREAM, ids[0], ids[2], ids[4])
    two = await world.alone("two")
    messages = await fetched(two, 2)
    assert by_key(messages) == {"order-1": [1, 3]}
    assert open_in(world) == [ids[1], ids[3]]
    await two.commit(done_with(messages))
    assert open_in(world) == []
    assert await world.lag() == 0


async def test_what_is_open_comes_page_by_page_before_what_is_new(world: RedisWorld) -> None:
    await world.publish(*(world.event("order-1", number) for number in range(10)))
    one = await world.alone("one")
    await fetched(one, 10)
    await one.close()
    await world.publish(*(world.event("order-1", number) for number in range(10, 15)))
    two = await world.alone("two")
    assert by_key(await fetched(two, 15, limit=3)) == {"order-1": list(range(15))}


async def test_a_fetch_that_is_cancelled_loses_nothing(world: RedisWorld) -> None:
    reader = await world.alone()
    await world.publish(*(world.event("order-1", number) for number in range(20)))
    found: list[int] = []
    for number in range(60):
        fetching = asyncio.ensure_future(reader.fetch(1, 0.05))
        # Somewhere between the first step and the answer.
        for _ in range(number % 7):
            await asyncio.sleep(0)
        if number % 3 and not fetching.done():
            fetching.cancel()
        with suppress(asyncio.CancelledError):
            found += [number_of(message) for message in await fetching]
    found += [number_of(message) for message in await fetched(reader, 20 - len(found))] if len(found) < 20 else []
    assert found == list(range(20))


async def test_an_answer_that_is_lost_on_the_way_is_asked_for_again(proxy: Proxy, redis: RedisServer) -> None:
    async with (
        opened(RedisBus(redis.url, partitions=8)) as bus,
        opened(RedisBus(f"redis://{HOST}:{proxy.port}/0", partitions=8, lease_ms=6 * LEASE_MS)) as far,
    ):
        reader = await has_all(await far.reader("mail", [TOPIC], instance="one"))
        proxy.reset_mid_reply()
        for number in range(3):
            await bus.publish([outgoing("order-1", number)])
        await until(lambda: _is_away(reader), "an answer was lost")
        proxy.normal()
        messages = await fetched(reader, 3)
        assert plain(messages) == [0, 1, 2]
        await reader.commit(done_with(messages))
        assert await bus.lag("mail", [TOPIC]) == {TOPIC: 0}


async def _is_away(reader: BusReader) -> bool:
    try:
        await reader.fetch(10, 0.5)
    except BusAway:
        return True
    return False


async def test_what_was_read_survives_a_crash_of_the_server(tmp_path: Path) -> None:
    try:
        with redis_server(tmp_path / "redis", appendonly=True, appendfsync="always") as server:
            async with opened(RedisBus(server.url, partitions=8, lease_ms=LEASE_MS)) as bus:
                reader = await has_all(await bus.reader("mail", [TOPIC], instance="one"))
                for number in range(4):
                    await bus.publish([outgoing("order-1", number)])
                messages = await fetched(reader, 4)
                await reader.commit(done_with(messages[:2]))
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                await reader.close()
                again = await has_all(await bus.reader("mail", [TOPIC], instance="two"))
                assert plain(await fetched(again, 2)) == [2, 3]
    except ServerAbsent as absent:
        require_server(absent)


# --- the lease ------------------------------------------------------------------------------------------------------


async def test_whoever_has_lost_the_lease_acknowledges_nothing(world: RedisWorld) -> None:
    reader = await world.alone()
    await world.publish(world.event("order-1", 0))
    messages = await fetched(reader, 1)
    await world.die(reader)
    world.server.ask("SET", LEASE, "somebody else")
    await reader.commit(done_with(messages))
    assert len(open_in(world)) == 1
    assert ONE not in reader.places()
    assert world.server.ask("GET", LEASE) == "somebody else"
    await reader.close()
    assert world.server.ask("GET", LEASE) == "somebody else"


async def test_whoever_has_lost_the_lease_reads_nothing(world: RedisWorld) -> None:
    reader = await world.alone()
    await world.die(reader)
    world.server.ask("SET", LEASE, "somebody else")
    await world.publish(world.event("order-1", 0))
    assert await nothing_comes(reader)
    assert open_in(world) == []
    assert ONE not in reader.places()


async def test_whoever_cannot_renew_gives_up_by_its_own_clock(proxy: Proxy, redis: RedisServer) -> None:
    far = RedisBus(f"redis://{HOST}:{proxy.port}/0", partitions=8, lease_ms=SHORT_MS, call_timeout=1.0)
    async with opened(RedisBus(redis.url, partitions=8, lease_ms=LEASE_MS)) as bus, opened(far):
        reader = await has_all(await far.reader("mail", [TOPIC], instance="one"))
        await bus.publish([outgoing("order-1", 0)])
        await fetched(reader, 1)
        proxy.half_open()
        await until(lambda: not reader.places(), "it gives up")
        other = await has_all(await bus.reader("mail", [TOPIC], instance="two"))
        assert plain(await fetched(other, 1)) == [0]
        with pytest.raises(BusAway):
            await reader.fetch(10, PATIENCE)
        proxy.normal()
        await other.close()
        await has_all(reader)
        assert plain(await fetched(reader, 1)) == [0]


async def test_a_place_is_handed_over_once_all_of_it_is_committed(
    world: RedisWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.events.buses.redis.HAND_OVER_SECONDS", PATIENCE)
    one = await world.alone("one")
    await world.publish(*(world.event(key, 0) for key in KEYS))
    messages = await fetched(one, len(KEYS))
    two = await world.reader("two")
    await world.publish(*(world.event(key, 1) for key in KEYS))
    half = world.partitions // 2
    kept: list[Message] = []

    async def is_leaving() -> bool:
        kept.extend(await one.fetch(100, 0.2))
        return len({message.place for message in kept}) >= half

    await until(is_leaving, "the places that stay go on")
    assert len(one.places()) == world.partitions
    assert not two.places()
    await one.commit(done_with(messages))
    await one.commit(done_with(kept))
    await until(lambda: len(two.places()) == half, "the others are handed over")
    assert set(one.places()).isdisjoint(two.places())
    numbers = by_key([*kept, *await fetched(two, len(KEYS) - len(kept))])
    assert numbers == {key: [1] for key in KEYS}


async def test_a_place_is_handed_over_after_a_while_in_any_case(
    world: RedisWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.events.buses.redis.HAND_OVER_SECONDS", 0.1)
    one = await world.alone("one")
    await world.publish(*(world.event(key, 0) for key in KEYS))
    messages = await fetched(one, len(KEYS))
    two = await world.reader("two")
    await until(lambda: len(two.places()) == world.partitions // 2, "they are handed over")
    again = await fetched(two, sum(message.place in two.places() for message in messages))
    assert {message.place for message in again} <= set(two.places())
    await one.commit(done_with(messages))
    assert await world.lag() == len(again)


async def test_three_readers_have_as_many_places_as_is_fair(world: RedisWorld) -> None:
    readers = [await world.reader(name) for name in ("one", "two", "three")]
    await until(lambda: sorted(len(reader.places()) for reader in readers) == [2, 3, 3], "the places are shared")
    taken = [place for reader in readers for place in reader.places()]
    assert len(set(taken)) == len(taken) == world.partitions


# --- streams that go ------------------------------------------------------------------------------------------------


async def test_reading_goes_on_after_everything_was_removed(world: RedisWorld) -> None:
    reader = await world.alone()
    await world.publish(world.event("order-1", 0))
    await fetched(reader, 1)
    world.server.ask("FLUSHALL")
    await world.publish(world.event("order-1", 1))
    assert by_key(await fetched(reader, 1)) == {"order-1": [1]}


async def test_a_group_that_was_destroyed_begins_anew(world: RedisWorld) -> None:
    reader = await world.alone()
    await world.publish(world.event("order-1", 0))
    await reader.commit(done_with(await fetched(reader, 1)))
    world.server.ask("XGROUP DESTROY", STREAM, "mail")
    assert await world.lag() == 1
    await world.publish(world.event("order-1", 1))
    assert by_key(await fetched(reader, 2)) == {"order-1": [0, 1]}


async def test_a_group_that_was_set_back_by_hand_is_read_again(world: RedisWorld) -> None:
    reader = await world.alone()
    await world.publish(*(world.event("order-1", number) for number in range(3)))
    await reader.commit(done_with(await fetched(reader, 3)))
    world.server.ask("XGROUP SETID", STREAM, "mail", "0")
    await world.publish(world.event("order-1", 3))
    assert by_key(await fetched(reader, 4)) == {"order-1": [0, 1, 2, 3]}


# --- how much there is ----------------------------------------------------------------------------------------------


async def test_where_redis_does_not_count_it_is_counted_up_to_a_limit(
    world: RedisWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.publish(*(world.event("order-1", number) for number in range(350)))
    reader = await world.alone()
    messages = await fetched(reader, 50, limit=50)
    await reader.commit(done_with(messages[:20]))
    await reader.close()
    assert await world.lag() == 330
    await world.replay(since=4_000_000_000_000)
    assert await world.lag() == 330
    await world.replay()
    assert await world.lag() == 350
    # More than are counted, and nobody knows how many: then it is all that is there.
    world.server.ask("XGROUP SETID", STREAM, "mail", messages[9].offset[0])
    monkeypatch.setattr("rota.events.buses.redis.MAX_COUNTED", 100)
    assert await world.lag() == 350


async def test_trimming_keeps_what_a_group_has_not_acknowledged(world: RedisWorld) -> None:
    bus = await world.bus()
    await world.publish(*(world.event("order-1", number) for number in range(10)))
    mail = await world.alone()
    messages = await fetched(mail, 10)
    await bus.reader("stock", [TOPIC], instance="two")
    await mail.commit(done_with(messages[:6]))
    assert await trimmed(bus) == 0, "stock has read nothing"
    world.server.ask("XGROUP DESTROY", STREAM, "stock")
    assert await trimmed(bus) == 6
    assert await bus.trim(3_600_000) == 0, "it is not old enough"
    await mail.commit(done_with(messages))
    assert await trimmed(bus) == 4
    assert world.server.ask("XLEN", STREAM) == 0


async def test_a_stream_that_nobody_reads_is_trimmed_by_age(world: RedisWorld) -> None:
    bus = await world.bus()
    await world.publish(*(world.event(key, 0) for key in KEYS))
    assert await bus.trim(3_600_000) == 0
    assert await trimmed(bus) == len(KEYS)


async def trimmed(bus: Bus) -> int:
    """What is trimmed if all that is there is old enough."""
    return await bus.trim(-1_000)


# --- publishing -----------------------------------------------------------------------------------------------------


async def test_only_what_is_wrong_by_itself_is_refused(world: RedisWorld) -> None:
    bus = await world.bus()
    large = outgoing("order-1", 1)._replace(value=b"x" * (MAX_BYTES + 1))
    answers = await bus.publish([outgoing("order-2", 0), large, outgoing("order-3", 0)])
    assert [type(answer) for answer in answers] == [type(None), Refused, type(None)]
    assert await world.lag() == 2


async def test_a_stream_whose_key_is_taken_holds_up_only_itself(world: RedisWorld) -> None:
    bus = await world.bus()
    world.server.ask("SET", STREAM, "something else")
    other = next(key for key in KEYS if partition_of(key, world.partitions) != ONE.partition)
    answers = await bus.publish([outgoing("order-1", 0), outgoing(other, 0)])
    assert isinstance(answers[0], BusAway)
    assert "prefix" in str(answers[0])
    assert answers[1] is None
    with pytest.raises(BusAway):
        await bus.publish([outgoing("order-1", 0)])


async def test_a_server_without_memory_is_away(world: RedisWorld) -> None:
    bus = await world.bus()
    world.server.ask("CONFIG SET", "maxmemory", "1")
    try:
        with pytest.raises(BusAway, match=r"The bus redis://.* cannot be used right now"):
            await bus.publish([outgoing("order-1", 0), outgoing("order-2", 0)])
    finally:
        world.server.ask("CONFIG SET", "maxmemory", "0")
    assert await bus.publish([outgoing("order-1", 0)]) == [None]


# --- names ----------------------------------------------------------------------------------------------------------


async def test_the_names_of_the_keys_and_what_is_left_in_the_end(redis: RedisServer) -> None:
    redis.ask("FLUSHALL")
    async with opened(RedisBus(f"{redis.url}?prefix=shop:", partitions=2)) as bus:
        await has_all(await bus.reader("mail", ["orders"], instance="one"), 2)
        names = set(cast("list[str]", redis.ask("KEYS", "*")))
        streams = {"shop:events:{orders:0}", "shop:events:{orders:1}"}
        passing = {"shop:events:readers:{orders}:mail", *(f"{stream}:lease:mail" for stream in streams)}
        assert names == streams | passing
        assert all(cast("int", redis.ask("PTTL", name)) > 0 for name in passing)
    assert set(cast("list[str]", redis.ask("KEYS", "*"))) == streams
    redis.ask("FLUSHALL")


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:secret@host:6379/1",
        "rediss://host",
        "redis+unix:///run/redis.sock",
        "unix:///run/redis.sock",
        "redis+sentinel://one:26379,two:26379/mymaster/0",
        "redis+cluster://one,two",
    ],
)
def test_every_form_of_a_url_is_taken_and_shown_without_its_password(url: str) -> None:
    assert "secret" not in RedisBus(check_url(url, BUS_SCHEMES)).name


@pytest.mark.parametrize("partitions", [0, -1, 5_000])
def test_a_number_of_partitions_that_makes_no_sense(partitions: int) -> None:
    with pytest.raises(InvalidConfig, match="partitions"):
        RedisBus("redis://host", partitions=partitions)


# --- a Cluster ------------------------------------------------------------------------------------------------------


async def test_all_of_it_works_on_a_cluster(redis_three: RedisCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.events.buses.redis.ROUND_SECONDS", 0.1)
    topics = ["orders", "stock"]
    async with opened(RedisBus(redis_three.url, lease_ms=2 * LEASE_MS)) as bus:
        one = await has_all(await bus.reader("mail", topics, instance="one"), 32)
        assert {sum(":lease:" in each for each in node_keys(node)) > 0 for node in redis_three.nodes} == {True}
        for number in range(3):
            group = [outgoing(key, number, topic, 16) for topic in topics for key in KEYS]
            assert await bus.publish(group) == [None] * len(group)
        assert await bus.lag("mail", topics) == dict.fromkeys(topics, 3 * len(KEYS))
        messages = await fetched(one, 6 * len(KEYS), limit=50)
        assert in_order(messages, topics) == {(topic, key): [0, 1, 2] for topic in topics for key in KEYS}
        await one.commit(done_with(messages))
        assert await bus.lag("mail", topics) == dict.fromkeys(topics, 0)

        two = await bus.reader("mail", topics, instance="two")
        await until(lambda: len(one.places()) == len(two.places()) == 16, "the places are shared")
        await bus.replay("mail", topics, 0)
        await one.close()
        again = await fetched(two, 6 * len(KEYS))
        assert in_order(again, topics) == in_order(messages, topics)
        assert await trimmed(bus) == 0
        await two.commit(done_with(again))
        assert await trimmed(bus) == 6 * len(KEYS)


def node_keys(node: RedisServer) -> list[str]:
    return cast("list[str]", node.ask("KEYS", "*"))


def in_order(messages: list[Message], topics: list[str]) -> dict[tuple[str, str], list[Any]]:
    return {
        (topic, key): [int(m.value) for m in messages if (m.place.topic, m.key) == (topic, key)]
        for topic in topics
        for key in KEYS
    }


async def test_a_node_that_is_away_holds_up_only_its_own_streams(redis_three: RedisCluster) -> None:
    bus = RedisBus(redis_three.url, call_timeout=2.0)
    async with opened(bus):
        group = [outgoing(key, 0, "orders", 16) for key in KEYS]
        assert await bus.publish(group) == [None] * len(KEYS)
        node = redis_three.nodes[-1]
        await asyncio.to_thread(node.stop)
        try:
            answers = await bus.publish(group)
        finally:
            await asyncio.to_thread(node.start)
        kinds = {type(answer) for answer in answers}
        assert kinds == {type(None), BusAway}
        await until(lambda: _all_taken(bus, group), "the Cluster takes all")


async def _all_taken(bus: RedisBus, group: list[Outgoing]) -> bool:
    with suppress(BusAway):
        return await bus.publish(group) == [None] * len(group)
    return False
