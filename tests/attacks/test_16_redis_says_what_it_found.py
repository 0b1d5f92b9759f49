"""16: a schema mark that is no number is named, and the reconciler reports what it has really repaired."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
from tests.opening import opened

from rota.core.task import Identity
from rota.errors import SchemaMismatch
from rota.stores.redis import RedisStore
from rota.stores.redis.scripts import Loaded, Scripts
from rota.testing.clock import FakeClock
from rota.testing.conformance.world import World
from rota.testing.redis_servers import RedisServer


@pytest.fixture
async def store(redis_url: str, clock: FakeClock) -> AsyncIterator[RedisStore]:
    async with opened(RedisStore(redis_url, clock=clock)) as store:
        yield store


@pytest.mark.parametrize("mark", ["", "one", "1.0", "-1", "\u0661"])
async def test_a_schema_mark_that_is_no_number(mark: str, redis: RedisServer, redis_url: str) -> None:
    redis.ask("HSET", "scheduler:meta", "schema", mark)
    store = RedisStore(redis_url)
    with pytest.raises(SchemaMismatch, match=r"no number.*scheduler:meta.*HSET scheduler:meta schema 2"):
        await store.open()


async def test_repairs_that_somebody_else_has_made_are_not_counted(
    store: RedisStore, redis: RedisServer, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass has seen a stray and a missing place; before it writes, both are put right."""
    world = World(store, clock)
    await world.type()
    await world.schedule("there")
    queue = "scheduler:queue:{work}"
    redis.ask("ZADD", queue, 1, "stray")
    load = Scripts.load

    async def put_right(scripts: Scripts, name: str, identities: Sequence[Identity]) -> list[Loaded]:
        found = await load(scripts, name, identities)
        redis.ask("ZREM", queue, "stray")
        return found

    monkeypatch.setattr(Scripts, "load", put_right)
    assert (await store.reconcile()).total == 0


async def test_what_was_wrong_is_counted_once(store: RedisStore, redis: RedisServer, clock: FakeClock) -> None:
    world = World(store, clock)
    await world.type()
    for key in ("missing", "late"):
        await world.schedule(key)
    redis.ask("ZREM", "scheduler:queue:{work}", "missing")
    redis.ask("ZADD", "scheduler:queue:{work}", world.now + 5, "late")
    redis.ask("ZADD", "scheduler:queue:{work}", 1, "stray")
    done = await store.reconcile()
    assert (done.entered, done.left) == (2, 1)
    assert (await store.reconcile()).total == 0
