"""The header of each script names what its caller gives it: a script and its caller cannot drift apart."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import cast

import msgspec
import pytest
from tests.opening import opened
from tour import TYPES, tour

from rota.core.task import Identity
from rota.stores.base import TaskQuery
from rota.stores.redis import RedisStore
from rota.stores.redis.client import Call
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import World
from rota.testing.redis_servers import RedisServer

LUA = files("rota.stores.redis").joinpath("lua")
INCLUDED = {
    *("allowance", "claim_rules", "common", "create", "details", "lanes", "plain", "record", "settle_rules", "success"),
    "token",
}
NAMES = sorted(file.name.removesuffix(".lua") for file in LUA.iterdir())


@pytest.fixture
async def store(redis_url: str, clock: FakeClock) -> AsyncIterator[RedisStore]:
    async with opened(RedisStore(redis_url, clock=clock)) as store:
        yield store


def header_of(name: str) -> str:
    """What the script says of its input, from `-- input` to `-- returns`."""
    text = LUA.joinpath(f"{name}.lua").read_text(encoding="utf-8")
    return text[text.index("\n-- input ") : text.index("\n-- returns ")]


def names_in(given: object) -> set[str]:
    """The names of what a caller gives: of a table, or of each table in a list."""
    tables = cast("list[object]", given if isinstance(given, list) else [given])
    return {name for table in tables if isinstance(table, dict) for name in cast("dict[str, object]", table)}


async def _upgraded(server: RedisServer, url: str) -> None:
    server.ask("HSET", "scheduler:meta", "schema", 1)
    server.ask("SADD", "scheduler:task_types", "old")
    server.ask("HSET", "scheduler:task_type:{old}", "config", "{}")
    server.ask("HSET", "scheduler:task:{old}:k", "status", "pending", "scheduled_at", 1, "created_at", 1)
    assert await RedisStore(url).upgrade(force=True) == 1


async def test_every_caller_gives_what_the_header_names(
    store: RedisStore, redis: RedisServer, redis_url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: defaultdict[str, set[str]] = defaultdict(set)
    by_digest = Call.by_digest

    def recorded(call: Call) -> tuple[str | int | bytes, ...]:
        given = msgspec.msgpack.decode(cast("bytes", call.args[3]))
        called[call.script] |= names_in(given)
        if call.script in ("renew", "settle"):
            called[call.script] |= names_in(given["items"])
        if call.script == "tick_all":
            called["beat"] |= names_in(given["beat"])
            called["tick"] |= names_in(given["sweep"])
        return by_digest(call)

    monkeypatch.setattr(Call, "by_digest", recorded)
    world = World(store, clock)
    await tour(world)
    await world.claimed(2, TYPES, in_all=1)
    await store.queue_position(Identity(TYPES[0], "series"))
    await store.find(TaskQuery(search="ser"))
    await store.erase_user("u1", now=clock.now())
    await store._server.command("DEL", *(store._keys.of("queue", name) for name in TYPES[:1]))  # pyright: ignore[reportPrivateUsage]  # something to repair
    await store.reconcile()
    await _upgraded(redis, redis_url)
    assert sorted(called) == sorted(set(NAMES) - INCLUDED), "each script was called"
    unnamed = {name: given - set(re.findall(r"\w+", header_of(name))) for name, given in called.items()}
    assert {name: sorted(missing) for name, missing in unnamed.items() if missing} == {}
