"""What every bus does, whatever it is made of."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress

import pytest
from tests.events.conftest import (
    SHORT_MS,
    BusWorld,
    by_key,
    done_with,
    fetched,
    nothing_comes,
    number_of,
    without_repeats,
)

from rota.errors import BusAway
from rota.events.buses.base import BusReader, Message
from rota.testing.waiting import PATIENCE, until

KEYS = [f"order-{number}" for number in range(40)]


class Handler:
    """Handles whatever a reader fetches, as a consumer does: what is no longer its own it leaves to others."""

    def __init__(self, bus: BusWorld, reader: BusReader, handled: list[Message]) -> None:
        self.reader = reader
        self.handled = handled
        self._bus = bus
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            with suppress(BusAway):
                messages = await self.reader.fetch(20, 0.2)
                ours = [message for message in messages if message.place in self.reader.places()]
                self.handled.extend(ours)
                await self._bus.commit(self.reader, done_with(ours))

    def check(self) -> bool:
        """True, unless it has stopped by itself: then its error is raised."""
        if self._task.done():
            self._task.result()
        return True

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


async def test_a_message_arrives_as_it_was_sent(bus: BusWorld) -> None:
    reader = await bus.alone()
    sent = bus.event("ä order", 7, headers={"traceparent": "00-1-2-03", "shop": "Zürich"})
    await bus.publish(sent)
    (message,) = await fetched(reader, 1)
    assert message.place in reader.places()
    assert message.place.topic == bus.topic
    assert message.key == "ä order"
    assert number_of(message) == 7
    headers = {"traceparent": "00-1-2-03", "shop": "Zürich", "event_id": sent.event_id, "event_type": sent.event_type}
    assert message.headers == headers


async def test_the_messages_of_a_key_keep_their_order(bus: BusWorld) -> None:
    await bus.publish(*(bus.event(key, number) for number in range(20) for key in KEYS))
    reader = await bus.alone()
    messages = await fetched(reader, 20 * len(KEYS), limit=33)
    assert by_key(messages) == {key: list(range(20)) for key in KEYS}


async def test_a_fetch_brings_no_more_than_it_is_asked_for(bus: BusWorld) -> None:
    await bus.publish(*(bus.event(key, 0) for key in KEYS))
    reader = await bus.alone()
    sizes: list[int] = []

    async def look() -> bool:
        sizes.append(len(await reader.fetch(3, 0.5)))
        return sum(sizes) == len(KEYS)

    await until(look, "all have come")
    assert max(sizes) <= 3


async def test_offsets_of_a_place_grow(bus: BusWorld) -> None:
    reader = await bus.alone()
    await bus.publish(*(bus.event(key, number) for number in range(3) for key in KEYS))
    offsets: defaultdict[object, list[int]] = defaultdict(list)
    for message in await fetched(reader, 3 * len(KEYS)):
        offsets[message.place].append(message.offset)
    assert all(sorted(set(each)) == each for each in offsets.values())


async def test_keys_are_spread_and_each_stays_in_its_place(bus: BusWorld) -> None:
    reader = await bus.alone()
    await bus.publish(*(bus.event(key, number) for number in range(2) for key in KEYS))
    messages = await fetched(reader, 2 * len(KEYS))
    places = {(message.key, message.place) for message in messages}
    assert len(places) == len(KEYS)
    assert len({place for _, place in places}) == bus.partitions


async def test_the_instances_of_a_consumer_share_its_places(bus: BusWorld) -> None:
    one = await bus.reader("one")
    two = await bus.reader("two")
    half = bus.partitions // 2
    handlers = [Handler(bus, one, []), Handler(bus, two, [])]

    def is_shared() -> bool:
        return all(each.check() and len(each.reader.places()) == half for each in handlers)

    await until(is_shared, "each has half of the places")
    assert set(one.places()).isdisjoint(two.places())
    await bus.publish(*(bus.event(key, 1) for key in KEYS))
    await until(lambda: sum(len(each.handled) for each in handlers if each.check()) >= len(KEYS), "all are handled")
    counted = Counter(message.key for each in handlers for message in each.handled)
    assert counted == dict.fromkeys(KEYS, 1)
    assert all(each.handled for each in handlers)
    for handler in handlers:
        await handler.stop()


async def test_every_consumer_gets_every_message(bus: BusWorld) -> None:
    mail = await bus.alone(consumer="mail")
    stock = await bus.alone(consumer="stock")
    await bus.publish(*(bus.event(key, 1) for key in KEYS))
    for reader in (mail, stock):
        assert by_key(await fetched(reader, len(KEYS))) == {key: [1] for key in KEYS}


async def test_who_closes_leaves_what_it_has_not_committed(bus: BusWorld) -> None:
    await bus.publish(*(bus.event(key, number) for number in range(3) for key in KEYS))
    one = await bus.alone("one")
    messages = await fetched(one, 3 * len(KEYS))
    firsts = {key: numbers[0] for key, numbers in by_key(messages).items()}
    assert firsts == dict.fromkeys(KEYS, 0)
    await one.close()
    two = await bus.alone("two")
    assert by_key(await fetched(two, 3 * len(KEYS))) == {key: [0, 1, 2] for key in KEYS}


async def test_who_dies_is_replaced_after_its_lease(bus: BusWorld) -> None:
    bus.needs("death")
    await bus.publish(*(bus.event(key, number) for number in range(3) for key in KEYS))
    one = await bus.alone("one", lease_ms=SHORT_MS)
    await fetched(one, 3 * len(KEYS))
    await bus.die(one)
    two = await bus.alone("two")
    assert by_key(await fetched(two, 3 * len(KEYS))) == {key: [0, 1, 2] for key in KEYS}
    assert not one.places()


async def test_what_is_ours_is_kept_while_nobody_fetches(bus: BusWorld) -> None:
    bus.needs("death")
    one = await bus.alone("one", lease_ms=2 * SHORT_MS)
    two = await bus.reader("two")
    await until(lambda: len(two.places()) == bus.partitions // 2, "the other has its half")
    kept = set(one.places())
    asked_at = time.monotonic()
    await until(lambda: time.monotonic() - asked_at > 3 * 2 * SHORT_MS / 1_000, "three leases have passed")
    assert set(one.places()) == kept
    assert kept.isdisjoint(two.places())


async def test_what_was_committed_does_not_come_again(bus: BusWorld) -> None:
    await bus.publish(*(bus.event(key, 0) for key in KEYS))
    one = await bus.alone("one")
    await bus.commit(one, done_with(await fetched(one, len(KEYS))))
    await one.close()
    await bus.publish(*(bus.event(key, 1) for key in KEYS))
    two = await bus.alone("two")
    assert by_key(await fetched(two, len(KEYS))) == {key: [1] for key in KEYS}


async def test_only_what_comes_after_the_committed_one_comes_again(bus: BusWorld) -> None:
    await bus.publish(*(bus.event("order-1", number) for number in range(5)))
    one = await bus.alone("one")
    messages = await fetched(one, 5)
    await bus.commit(one, done_with(messages[:2]))
    await one.close()
    two = await bus.alone("two")
    assert by_key(await fetched(two, 3)) == {"order-1": [2, 3, 4]}


async def test_a_commit_for_a_lost_place_changes_nothing(bus: BusWorld) -> None:
    bus.needs("death")
    await bus.publish(*(bus.event(key, 0) for key in KEYS))
    one = await bus.alone("one", lease_ms=SHORT_MS)
    late = await fetched(one, len(KEYS))
    await bus.die(one)
    two = await bus.alone("two")
    await bus.commit(one, done_with(late))
    await two.close()
    three = await bus.alone("three")
    assert by_key(await fetched(three, len(KEYS))) == {key: [0] for key in KEYS}


async def test_a_paused_place_hands_out_nothing_while_others_go_on(bus: BusWorld) -> None:
    reader = await bus.alone()
    paused = min(reader.places())
    reader.pause([paused])
    await bus.publish(*(bus.event(key, 0) for key in KEYS))
    messages: list[Message] = []
    await until(lambda: _more(reader, messages, {place for place in reader.places() if place != paused}), "all others")
    assert await nothing_comes(reader)
    assert paused not in {message.place for message in messages}
    reader.pause([])
    messages += await fetched(reader, len(KEYS) - len(messages))
    assert by_key(messages) == {key: [0] for key in KEYS}


async def _more(reader: BusReader, messages: list[Message], wanted: set[object]) -> bool:
    messages.extend(await reader.fetch(100, 0.2))
    return {message.place for message in messages} >= wanted


async def test_the_lag_goes_up_and_down(bus: BusWorld) -> None:
    await bus.publish(*(bus.event(key, 0) for key in KEYS))
    assert await bus.lag() == len(KEYS)
    reader = await bus.alone()
    messages = await fetched(reader, len(KEYS))
    assert await bus.lag() == len(KEYS)
    await bus.commit(reader, done_with(messages))
    assert await bus.lag() == 0
    await bus.publish(bus.event("order-1", 1))
    assert await bus.lag() == 1
    assert await bus.lag("stock") == len(KEYS) + 1


async def test_a_replay_brings_everything_again(bus: BusWorld) -> None:
    bus.needs("replay")
    reader = await bus.alone()
    await bus.publish(*(bus.event(key, number) for number in range(2) for key in KEYS))
    await bus.commit(reader, done_with(await fetched(reader, 2 * len(KEYS))))
    await bus.replay()
    await bus.publish(*(bus.event(key, 2) for key in KEYS))
    again: list[Message] = []

    async def is_all_there() -> bool:
        # What was read before the place was lost is somebody else's; from then on it comes in its order.
        again.extend(await reader.fetch(100, 0.2))
        numbers = by_key(again)
        return all(numbers.get(key, [])[-3:] == [0, 1, 2] for key in KEYS)

    await until(is_all_there, "everything has come again")


async def test_a_replay_of_what_is_to_come_skips_nothing(bus: BusWorld) -> None:
    bus.needs("replay")
    await bus.publish(*(bus.event(key, 0) for key in KEYS))
    reader = await bus.alone()
    await bus.replay(since=4_000_000_000_000)
    assert by_key(await fetched(reader, len(KEYS))) == {key: [0] for key in KEYS}


async def test_a_fetch_waits_and_returns_soon_after_a_message(bus: BusWorld) -> None:
    reader = await bus.alone()
    took: list[float] = []
    for number in range(5):
        waiting = await waiting_fetch(reader)
        sent_at = time.monotonic()
        await bus.publish(bus.event("order-1", number))
        assert [number_of(message) for message in await waiting] == [number]
        took.append(time.monotonic() - sent_at)
    assert min(took) < 0.5


async def waiting_fetch(reader: BusReader) -> asyncio.Task[Sequence[Message]]:
    """A fetch that has found nothing yet."""
    fetching = asyncio.get_running_loop().create_task(_fetch(reader))
    done, _ = await asyncio.wait([fetching], timeout=0.05)
    assert not done
    return fetching


async def _fetch(reader: BusReader) -> Sequence[Message]:
    return await reader.fetch(10, 10 * PATIENCE)


async def test_a_fetch_without_anything_ends_in_time(bus: BusWorld) -> None:
    reader = await bus.alone()
    asked_at = time.monotonic()
    assert not await reader.fetch(10, 0.1)
    assert 0.05 < time.monotonic() - asked_at < PATIENCE / 2


async def test_waking_ends_a_fetch(bus: BusWorld) -> None:
    reader = await bus.alone()
    waiting = await waiting_fetch(reader)
    reader.wake()
    await until(waiting.done, "the fetch has returned")
    assert not waiting.result()


async def test_a_bus_that_is_away_says_so_and_goes_on_when_it_is_back(bus: BusWorld) -> None:
    bus.needs("outage")
    reader = await bus.alone()
    publisher = await bus.bus()
    await bus.stop()
    try:
        with pytest.raises(BusAway):
            await publisher.publish([bus.outgoing(bus.event("order-1", 0))])
        with pytest.raises(BusAway):
            await reader.fetch(10, PATIENCE)
    finally:
        await bus.start()
    await until(lambda: _takes(bus, "order-1", 1), "the bus takes it")
    found = [number_of(message) for message in await fetched(reader, 1)]
    assert found[0] == 1


async def _takes(bus: BusWorld, key: str, number: int) -> bool:
    with suppress(BusAway):
        await bus.publish(bus.event(key, number))
        return True
    return False


async def test_nothing_is_lost_while_instances_come_and_go(bus: BusWorld) -> None:
    keys = [f"order-{number}" for number in range(300)]
    handled: list[Message] = []
    handlers = [Handler(bus, await bus.reader("one"), handled)]
    for number in range(12):
        await bus.publish(*(bus.event(key, number) for key in keys))
        if number in (2, 4):
            handlers.append(Handler(bus, await bus.reader(f"more-{number}"), handled))
        if number in (6, 8):
            leaving = handlers.pop(0)
            await leaving.stop()
            await leaving.reader.close()

    def is_all_handled() -> bool:
        done = {(message.key, number_of(message)) for message in handled}
        return all(each.check() for each in handlers) and len(done) == 12 * len(keys)

    await until(is_all_handled, "all are handled")
    assert {key: without_repeats(numbers) for key, numbers in by_key(handled).items()} == {
        key: list(range(12)) for key in keys
    }
    for handler in handlers:
        await handler.stop()
