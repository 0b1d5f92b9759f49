"""The live feed: numbered, resumable, without a hole, for one look however many listen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send
from tests.api.stage import Stage, a_client

from rota.access import Role
from rota.api.live import Feed, FeedSettings, Picture
from rota.errors import StoreUnavailable
from rota.stores.base import Counts
from rota.testing.waiting import PATIENCE, until

QUICK = FeedSettings(look_every=0.005, kept=8, heartbeat=0.05, linger=0.05)


class Event(NamedTuple):
    id: str
    event: str
    data: dict[str, Any]

    @property
    def number(self) -> int:
        return int(self.id.rpartition("-")[2])


class World:
    """What the feed looks at; a test changes it."""

    def __init__(self) -> None:
        self.picture = Picture(counts={"job": Counts()})
        self.is_away = False
        self.looks = 0

    def change(self, number: int, name: str = "job") -> None:
        self.picture = Picture(counts={**self.picture.counts, name: Counts(pending=number)})

    async def look(self) -> Picture:
        self.looks += 1
        if self.is_away:
            raise StoreUnavailable("away")
        return self.picture


async def events(chunks: AsyncGenerator[bytes]) -> AsyncGenerator[Event]:
    async with aclosing(chunks):
        async for chunk in chunks:
            for block in chunk.decode().split("\n\n"):
                lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
                if "event" in lines:
                    yield Event(lines["id"], lines["event"], json.loads(lines["data"]))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def feed(world: World) -> AsyncGenerator[Feed]:
    made = Feed(world.look, settings=QUICK)
    yield made
    await made.close()


async def next_of(stream: AsyncGenerator[Event]) -> Event:
    async with asyncio.timeout(PATIENCE):
        return await anext(stream)


async def test_a_new_listener_sees_everything_and_then_what_changes(feed: Feed, world: World) -> None:
    async with aclosing(events(feed.listen())) as stream:
        first = await next_of(stream)
        assert (first.event, first.data["types"]) == ("snapshot", ["job"])
        world.change(3)
        second = await next_of(stream)
        assert (second.event, second.number) == ("changed", first.number + 1)
        assert second.data["types"] == ["job"]
        assert second.data["counts"]["job"]["pending"] == 3
        world.change(1, "other")
        third = await next_of(stream)
        assert (third.number, third.data["types"], set(third.data["counts"])) == (
            second.number + 1,
            ["other"],
            {"other"},
        )


async def test_what_was_missed_is_replayed(feed: Feed, world: World) -> None:
    async with aclosing(events(feed.listen())) as stream, aclosing(events(feed.listen())) as other:
        seen = await next_of(stream)
        await next_of(other)
        await stream.aclose()
        for number in range(1, 5):
            world.change(number)
            assert (await next_of(other)).data["counts"]["job"]["pending"] == number
        async with aclosing(events(feed.listen(seen.id))) as again:
            replayed = [await next_of(again) for _ in range(4)]
    assert [each.number for each in replayed] == [seen.number + 1 + step for step in range(4)]
    assert [each.data["counts"]["job"]["pending"] for each in replayed] == [1, 2, 3, 4]
    assert {each.event for each in replayed} == {"changed"}


async def test_what_is_too_old_is_answered_with_a_snapshot(feed: Feed, world: World) -> None:
    async with aclosing(events(feed.listen())) as watching:
        seen = await next_of(watching)
        for number in range(1, QUICK.kept + 3):
            world.change(number)
            await next_of(watching)
        async with aclosing(events(feed.listen(seen.id))) as again:
            first = await next_of(again)
    assert (first.event, first.data["counts"]["job"]["pending"]) == ("snapshot", QUICK.kept + 2)


@pytest.mark.parametrize(
    "last_id", ["", "nonsense", "00000000-1", "-", "x-y", "{boot}-999", "{boot}-", "{boot}--1", "{boot}-" + "9" * 30]
)
async def test_a_strange_last_id_is_answered_with_a_snapshot(feed: Feed, last_id: str) -> None:
    async with aclosing(events(feed.listen(last_id.replace("{boot}", feed.boot)))) as stream:
        assert (await next_of(stream)).event == "snapshot"


async def test_many_listeners_cost_one_look(feed: Feed, world: World) -> None:
    streams = [events(feed.listen()) for _ in range(100)]
    await asyncio.gather(*(next_of(stream) for stream in streams))
    assert feed.listeners == 100
    before = feed.looks
    world.change(1)
    await asyncio.gather(*(next_of(stream) for stream in streams))
    assert feed.looks - before <= 50, "looks are counted by time, not by listeners"
    for stream in streams:
        await stream.aclose()
    assert feed.listeners == 0


async def test_nobody_listens_nobody_looks(feed: Feed, world: World) -> None:
    assert world.looks == 0
    async with aclosing(events(feed.listen())) as stream:
        await next_of(stream)
    await until(lambda: not feed.is_looking)
    idle = world.looks
    world.change(9)
    async with aclosing(events(feed.listen())) as stream:
        assert (await next_of(stream)).data["counts"]["job"]["pending"] == 9, "the first look is fresh"
    assert world.looks > idle


async def test_a_store_that_is_away_is_said_once_and_so_is_its_return(feed: Feed, world: World) -> None:
    world.change(2)
    async with aclosing(events(feed.listen())) as stream:
        await next_of(stream)
        world.is_away = True
        gone = await next_of(stream)
        assert (gone.data["is_store_away"], gone.data["types"]) == (True, [])
        world.is_away = False
        back = await next_of(stream)
        assert (back.data["is_store_away"], back.number) == (False, gone.number + 1)


async def test_a_listener_gets_a_sign_of_life(feed: Feed) -> None:
    async with aclosing(feed.listen()) as chunks, asyncio.timeout(PATIENCE):
        found = [await anext(chunks) for _ in range(3)]
    assert found[0] == b"retry: 1000\n\n"
    assert found[2] == b": still here\n\n"


async def test_a_listener_who_may_not_any_more_is_sent_away(feed: Feed) -> None:
    async def is_welcome() -> bool:
        return False

    async with asyncio.timeout(PATIENCE):
        assert len([chunk async for chunk in feed.listen(is_welcome=is_welcome)]) == 2


async def test_so_is_one_who_hears_something_all_the_time(world: World) -> None:
    """Where there is always news there is no silence after which somebody could be asked."""
    feed = Feed(world.look, settings=FeedSettings(look_every=0.001, heartbeat=0.05))
    asked = 0

    async def is_welcome() -> bool:
        nonlocal asked
        asked += 1
        return asked < 3

    async with asyncio.timeout(PATIENCE):
        number = 0
        async for _ in feed.listen(is_welcome=is_welcome):
            number += 1
            world.change(number)  # the next look has news, whatever happens
    assert asked == 3
    await feed.close()


async def test_a_slow_listener_is_dropped_and_comes_back_whole(feed: Feed, world: World) -> None:
    async with aclosing(events(feed.listen())) as slow, aclosing(events(feed.listen())) as quick:
        seen = await next_of(slow)
        await next_of(quick)
        for number in range(1, QUICK.kept + 5):
            world.change(number)
            await next_of(quick)
        with pytest.raises(StopAsyncIteration):
            await next_of(slow)
        async with aclosing(events(feed.listen(seen.id))) as again:
            assert (await next_of(again)).event == "snapshot"


async def test_closing_ends_every_stream(feed: Feed) -> None:
    async def drain() -> int:
        return len([chunk async for chunk in feed.listen()])

    draining = [asyncio.create_task(drain()) for _ in range(10)]
    await until(lambda: feed.listeners == 10)
    await feed.close()
    await feed.close()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*draining)
    assert feed.listeners == 0


@given(steps=st.lists(st.integers(0, 12), min_size=1, max_size=30))
@settings(max_examples=100)
async def test_however_often_it_breaks_there_is_no_hole(steps: list[int]) -> None:
    """A listener that breaks off after any number of changes has, at the end, the counts that there are."""
    world = World()
    feed = Feed(world.look, settings=FeedSettings(kept=5))
    last_id, at, known, number = None, 0, 0, 0
    for step in steps:
        for _ in range(step):
            number += 1
            world.change(number)
            feed.show(world.picture)
        async with aclosing(events(feed.listen(last_id))) as stream:
            while known != number or last_id is None:
                event = await next_of(stream)
                assert event.event == "snapshot" or event.number == at + 1
                at, last_id, known = event.number, event.id, event.data["counts"]["job"]["pending"]
    assert known == number
    await feed.close()


# --- over HTTP -------------------------------------------------------------------------------------------------------


async def test_the_stream_is_served(stage: Stage) -> None:
    sent = bytearray()

    async def overheard(scope: Scope, receive: Receive, send: Send) -> None:
        """The application; what it sends is seen before the answer ends."""

        async def heard(message: Message) -> None:
            sent.extend(message.get("body", b""))
            await send(message)

        await stage.api(scope, receive, heard)

    await stage.app.schedule("job", key="a", delay="1h")
    async with a_client(overheard, stage.secrets[Role.VIEWER]) as client, asyncio.timeout(PATIENCE):
        listening = asyncio.create_task(client.get("/api/live"))
        await until(lambda: b"event: snapshot" in sent)
        await stage.app.schedule("job", key="b", delay="1h")
        # A feed that is closed sends nothing more, so what it was to send has to be out.
        await until(lambda: b"event: changed" in sent)
        await stage.service.feed.close()
        answer = await listening
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert answer.headers["Cache-Control"] == "no-store"
    assert "content-length" not in answer.headers

    async def whole() -> AsyncGenerator[bytes]:
        yield answer.content

    found = [event async for event in events(whole())]
    assert found[0].event == "snapshot"
    assert found[-1].data["counts"]["job"]["pending"] == 2


async def test_a_revoked_token_ends_its_stream(stage: Stage) -> None:
    async with a_client(stage.api, stage.secrets[Role.VIEWER]) as client, asyncio.timeout(PATIENCE):
        listening = asyncio.create_task(client.get("/api/live"))
        await until(lambda: stage.service.feed.listeners > 0)
        tokens = await stage.service.tokens()
        (mine,) = [token for token in await tokens.list() if token.name == "viewer"]
        await tokens.revoke(mine.id)
        assert (await listening).status_code == 200
