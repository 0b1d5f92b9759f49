"""Where the tests of batches run: on one file, on PostgreSQL, and on Redis with PostgreSQL beside it."""

from __future__ import annotations

import os

import pytest
from tests.batches.scene import World

from rota.testing.redis_servers import RedisServer

# PostgreSQL is the database beside Redis, too; as a store of its own it has the suite of all stores.
WORLDS = ("sqlite", "postgres", "redis") if os.environ.get("ROTA_FUZZ") else ("sqlite", "redis")


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest) -> World:
    """Each of them."""
    return _world(request, request.param)


@pytest.fixture
def file_world(request: pytest.FixtureRequest) -> World:
    """One file: for what is the same everywhere."""
    return _world(request, "sqlite")


@pytest.fixture
def redis_world(request: pytest.FixtureRequest) -> World:
    """A store that can lose everything, beside a database that does not."""
    return _world(request, "redis")


def _world(request: pytest.FixtureRequest, name: str) -> World:
    if name == "sqlite":
        return World(name, {"store": request.getfixturevalue("sqlite_url")})
    if name == "postgres":
        return World(name, {"store": request.getfixturevalue("postgres_url")})
    redis: RedisServer = request.getfixturevalue("redis")
    url: str = request.getfixturevalue("redis_url")
    settings = {"store": url, "database": request.getfixturevalue("postgres_url"), "bus": url}
    return World(name, settings, lambda: redis.ask("FLUSHALL"))
