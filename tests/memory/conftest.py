"""What the tests of memory start from: a memory on a real database, with a scheduler that only takes notes."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from tests.opening import opened

from rota.database import Database
from rota.memory import Contexts
from rota.testing import FakeClock
from rota.testing.redis_servers import RedisServer, redis_server
from rota.testing.servers import ServerAbsent, require_server


@pytest.fixture(autouse=True)
def _no_configuration_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] -- pytest uses it
    monkeypatch.chdir(tmp_path)
    # Nor a proxy: what is asked here is on loopback, and no proxy leads there.
    proxies = [name for name in os.environ if name.lower().endswith("_proxy")]
    for name in ("ROTA_CONFIG", "ROTA_STORE", "ROTA_TIMEZONE", "TIMEZONE", "TZ", *proxies):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncGenerator[Database]:
    """Both databases, each on the test's clock."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    async with opened(Database(url, clock=clock)) as database:
        yield database


@pytest.fixture
async def sqlite(sqlite_url: str, clock: FakeClock) -> AsyncGenerator[Database]:
    async with opened(Database(sqlite_url, clock=clock)) as database:
        yield database


@pytest.fixture
def own_redis(tmp_path: Path) -> Generator[RedisServer]:
    """A Redis of one's own, which keeps everything: it is stopped in the middle."""
    try:
        with redis_server(tmp_path / "redis", appendonly=True, appendfsync="always") as server:
            yield server
    except ServerAbsent as absent:
        require_server(absent)


@pytest.fixture
def contexts(database: Database) -> Contexts:
    return Contexts(database)
