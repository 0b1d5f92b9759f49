"""The spool before a real Redis that is stopped and started again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from rota.app import Rota
from rota.stores.redis.store import RedisStore
from rota.testing.redis_servers import RedisServer, redis_server
from rota.testing.waiting import until


@pytest.fixture
def server(tmp_path: Path) -> Generator[RedisServer]:
    with redis_server(tmp_path / "redis", appendonly=True, appendfsync="always") as running:
        yield running


def app_on(server: RedisServer, path: Path) -> Rota:
    app = Rota({"spool": str(path)}, store=RedisStore(server.url))

    @app.on_activity(after="1h")
    async def work(user_id: str) -> None:
        """What is done does not matter here."""

    return app


async def test_touches_outlive_the_outage(server: RedisServer, tmp_path: Path) -> None:
    app = app_on(server, tmp_path / "spool.db")
    async with app:
        assert (await app.touch("work", "before")).outcome == "created"
        await asyncio.to_thread(server.stop)

        outcomes = {(await app.touch("work", f"u{n}")).outcome for n in range(20)}
        assert outcomes == {"spooled"}
        assert app.health().spooled == 20

        await asyncio.to_thread(server.start)
        await until(lambda: not app.health().spooled)
        assert (await app.counts())["work"].pending == 21
        assert (await app.touch("work", "u0")).outcome == "coalesced"


async def test_an_app_may_start_before_its_server(server: RedisServer, tmp_path: Path) -> None:
    app = app_on(server, tmp_path / "spool.db")
    await asyncio.to_thread(server.stop)
    async with app:
        await app.start()
        outcomes = {(await app.touch("work", f"u{n}")).outcome for n in range(5)}
        assert outcomes == {"spooled"}
        assert not app.health().ok

        await asyncio.to_thread(server.start)
        await until(lambda: app.is_running() and app.health().ok, "the worker works")
        await until(lambda: not app.health().spooled)
        assert (await app.counts())["work"].pending == 5
        assert len(await app.instances()) == 1
    assert not app.is_running()


async def test_a_server_that_hangs_is_not_waited_for(server: RedisServer, tmp_path: Path) -> None:
    app = app_on(server, tmp_path / "spool.db")
    async with app:
        await app.touch("work", "before")
        await asyncio.to_thread(server.ask, "CLIENT PAUSE", 2_000)

        started = time.monotonic()
        assert (await app.touch("work", "u1")).outcome == "spooled"
        assert 0.2 < time.monotonic() - started < 1.5

        await until(lambda: not app.health().spooled)
        counts = (await app.counts())["work"]
        assert (counts.pending, counts.created_total) == (2, 2)
