"""10: an existing type is there for every thread, and nobody's answer depends on whom it shared a group with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.opening import opened
from tests.records import put_field

from rota.core.outcome import Answer
from rota.core.task import Settlement, Transition
from rota.stores.redis import RedisStore
from rota.stores.redis.client import Server
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import World
from rota.testing.redis_servers import RedisServer

Commands = Sequence[Sequence[str | int | bytes]]


@pytest.fixture
async def store(redis_url: str, clock: FakeClock) -> AsyncIterator[RedisStore]:
    async with opened(RedisStore(redis_url, clock=clock)) as store:
        yield store


async def test_types_are_there_while_another_thread_learns_of_them(
    store: RedisStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ask for the first time: one is held between its two questions until the other knows all types."""
    world = World(store, clock)
    names = {"one", "two", "three"}
    for name in sorted(names):
        await world.type(name)
    scripts = store._scripts  # pyright: ignore[reportPrivateUsage]
    scripts._known = frozenset()  # pyright: ignore[reportPrivateUsage]
    first_is_asked, other_is_done = threading.Event(), threading.Event()
    ask = Server.many_blocking

    def held(server: Server, commands: Commands) -> list[object]:
        answers = ask(server, commands)
        if threading.current_thread().name == "held" and not first_is_asked.is_set():
            first_is_asked.set()
            assert other_is_done.wait(60)
        return answers

    monkeypatch.setattr(Server, "many_blocking", held)
    found: list[set[str]] = []
    slow = threading.Thread(target=lambda: found.append(set(scripts.types_blocking())), name="held")
    slow.start()
    assert await asyncio.to_thread(first_is_asked.wait, 60)
    assert set(await asyncio.to_thread(scripts.types_blocking)) == names
    other_is_done.set()
    await asyncio.to_thread(slow.join)
    assert found == [names]


async def test_a_settle_beside_one_that_cannot_be_written_is_answered_as_if_alone(
    store: RedisStore, redis: RedisServer, clock: FakeClock
) -> None:
    world = World(store, clock)
    await world.type()
    for number in range(12):
        await world.schedule(f"plain-{number:02}")
    await world.series("broken")
    clock.advance(3_600)
    # So many that some share a group with the bad one.
    *plain, bad = sorted(await world.claim(13), key=lambda task: task.key == "broken")
    tasks = [*plain[:6], bad, *plain[6:]]
    assert bad.key == "broken"
    put_field(redis, "work", "broken", "trigger", "nonsense")
    settles = [
        store.settle([Settlement(task_type="work", key=task.key, token=task.token, transition=Transition.COMPLETE)])
        for task in tasks
    ]
    answers = dict(
        zip((task.key for task in tasks), await asyncio.gather(*settles, return_exceptions=True), strict=True)
    )
    broken = answers.pop("broken")
    assert isinstance(broken, Exception), broken
    assert [type(each) for each in answers.values()] == [list] * 12
    assert {reply.answer for each in answers.values() if isinstance(each, list) for reply in each} == {Answer.OK}
