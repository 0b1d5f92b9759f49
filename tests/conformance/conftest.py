"""Binds the conformance suite to every store: `store` is memory, SQLite, PostgreSQL and Redis in turn."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pytest

from rota.stores.base import Store
from rota.stores.memory import MemoryStore
from rota.stores.redis import RedisStore
from rota.stores.sql import SqlStore
from rota.testing.clock import FakeClock
from rota.testing.leaks import assert_no_leaks
from rota.testing.redis_servers import RedisServer

STORES = ["memory", "sqlite", "postgres", "redis"]
if shutil.which("redis-server"):
    # Another version than the wheel's, where the system has one.
    STORES.append("redis_system")


def _store(name: str, request: pytest.FixtureRequest, clock: FakeClock) -> Store:
    if name == "memory":
        return MemoryStore(clock)
    url: str = request.getfixturevalue(f"{name}_url")
    return RedisStore(url, clock=clock) if name.startswith("redis") else SqlStore(url, clock=clock)


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncIterator[Store]:
    made = _store(str(request.param), request, clock)
    await made.open()
    yield made
    await made.close()
    if isinstance(made, RedisStore):
        server: RedisServer = request.getfixturevalue("redis" if request.param == "redis" else "_redis_system")
        assert_no_leaks(server)
