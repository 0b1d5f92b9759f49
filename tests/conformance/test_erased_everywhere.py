"""An erased user is nowhere in the store: not in a key, not in a field, not in a forgotten index."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import cast

import pytest
from redis import Redis
from sqlalchemy import MetaData, create_engine, select
from tests.opening import opened

from rota.clock import HOUR
from rota.core.task import Transition
from rota.core.task_type import TriggerMode
from rota.keys import UserKeyBuilder
from rota.stores import open_store
from rota.testing.clock import FakeClock
from rota.testing.conformance.erase import erase_all
from rota.testing.conformance.world import WORK, World
from rota.testing.redis_servers import RedisServer

CANARY = "canary"
OTHER = "somebody"

Dump = Callable[[], list[str]]


def rows_of(url: str) -> list[str]:
    """Every row of every table, in words."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://").partition("?synchronous")[0])
    tables = MetaData()
    tables.reflect(engine)
    with engine.connect() as connection:
        found = [
            f"{table.name}: {tuple(row)}" for table in tables.sorted_tables for row in connection.execute(select(table))
        ]
    engine.dispose()
    return found


def keys_of(server: RedisServer) -> list[str]:
    """Every key and what is in it, in words."""
    reads: dict[str, tuple[object, ...]] = {
        "string": ("GET",),
        "hash": ("HGETALL",),
        "set": ("SMEMBERS",),
        "zset": ("ZRANGE", 0, -1),
        "stream": ("XRANGE", "-", "+"),
    }
    found: list[str] = []
    # A record is no text, but the texts in it are.
    with Redis(port=server.port, protocol=2) as client:
        for key in cast("Iterable[str]", server.ask("KEYS", "*")):
            command, *rest = reads[str(server.ask("TYPE", key))]
            found.append(f"{key}: {client.execute_command(command, key, *rest)}")  # pyright: ignore[reportUnknownMemberType]  # redis has no types for it
    return found


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def place(request: pytest.FixtureRequest) -> tuple[str, Dump]:
    """The URL of a store, and how to read all of it."""
    url = str(request.getfixturevalue(f"{request.param}_url"))
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis")
        return url, lambda: keys_of(server)
    return url, lambda: rows_of(url)


@pytest.fixture
async def world(place: tuple[str, Dump], clock: FakeClock) -> AsyncIterator[World]:
    async with opened(open_store(place[0], clock)) as store:
        yield World(store, clock)


async def live(world: World, user_id: str) -> None:
    """A bit of everything that carries a user's id, or what it says."""

    def key(device: str) -> str:
        return UserKeyBuilder().build_key(user_id, device)

    for at, transition in enumerate((Transition.COMPLETE, Transition.FAIL, Transition.DISCARD)):
        await world.schedule(key(f"d{at}"), user_id=user_id, payload=f"{user_id} said " + "x" * 100)
        await world.run(transition, reason=None if transition is Transition.COMPLETE else f"by {user_id}")
    await world.series(key("series"), user_id=user_id, owner=user_id)
    for _ in range(3):
        await world.apply(Transition.RUN_NOW, key("series"))
        await world.run(result=f"of {user_id}")
    await world.apply(Transition.PAUSE, key("series"))
    await world.schedule(f"stray of {user_id}", user_id=user_id, serial=user_id)
    held = await world.claim_one()
    await world.schedule(key("parked"), user_id=user_id, serial=user_id, priority=7)
    assert await world.claim() == []
    await world.settle(held)
    await world.schedule(
        key("expires"), user_id=user_id, scheduled_at=world.now + HOUR, expires_at=world.now + 2 * HOUR
    )
    await world.schedule(key("past"), user_id=user_id)
    for _ in range(2):
        await world.run()
    await world.apply(Transition.PURGE, key("past"))
    await world.touch(key("touched"), user_id=user_id)
    await world.pump()


async def test_nothing_of_the_user_is_left(world: World, place: tuple[str, Dump]) -> None:
    await world.type(max_retries=0)
    await world.type("next", after=(WORK, "never"), trigger_mode=TriggerMode.AFTER)
    await world.type("never")
    for user_id in (OTHER, CANARY):
        await live(world, user_id)
    dump = place[1]
    others = sorted(line for line in dump() if OTHER in line and CANARY not in line)
    assert [line for line in dump() if CANARY in line]
    assert others
    done = await erase_all(world, CANARY, limit=3)
    assert done.done_at is not None
    # The tombstone says whom it is about, and goes too.
    left = [line for line in dump() if CANARY in line]
    assert [line for line in left if "erasures" not in line] == []
    assert len(left) == 1
    assert set(others) <= set(dump()), "what is somebody else's alone has not changed"
    world.clock.set(done.done_at + 7 * 24 * HOUR + 1)
    await world.prune()
    assert [line for line in dump() if CANARY in line] == []
