"""Binds the conformance suite to every store: `store` is memory, SQLite, PostgreSQL and Redis in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rota.stores.base import Store
from rota.stores.memory import MemoryStore
from rota.stores.redis import RedisStore
from rota.stores.sql import SqlStore
from rota.testing.clock import FakeClock


def _store(name: str, request: pytest.FixtureRequest, clock: FakeClock) -> Store:
    if name == "memory":
        return MemoryStore(clock)
    url: str = request.getfixturevalue(f"{name}_url")
    return RedisStore(url, clock=clock) if name == "redis" else SqlStore(url, clock=clock)


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
async def store(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncIterator[Store]:
    made = _store(str(request.param), request, clock)
    await made.open()
    yield made
    await made.close()
