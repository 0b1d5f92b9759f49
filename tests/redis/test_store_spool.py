"""The spool before a real Redis that is stopped and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from rota.app.rota import Rota
from rota.stores.redis.store import RedisStore
from rota.testing.redis_servers import RedisServer, redis_server
from rota.testing.waiting import until


@pytest.fixture
def server(tmp_path: Path) -> Generator[RedisServer]:
    with redis_server(tmp_path / "redis", appendonly=True, appendfsync="always") as running:
        yield running


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is down says so at once; one that is there may take its time on a busy machine or disk."""
    monkeypatch.setattr("rota.runtime.spool.PATIENCE", 4.0)


def app_on(server: RedisServer, path: Path) -> Rota:
    app = Rota({"spool": str(path)}, store=RedisStore(server.url))

    @app.on_activity(after="1h")
    async def work(user_id: str) -> None:
        """What is done does not matter here."""

    return app


@pytest.mark.usefixtures("patient")
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
        # The rows are gone on the disk's thread, a moment before the loop knows that the store is back.
        await until(lambda: app.health().last_offered_at is not None)
        assert (await app.counts())["work"].pending == 21
        assert (await app.touch("work", "u0")).outcome == "coalesced"


@pytest.mark.usefixtures("patient")
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

        # It is announced by a duty of its own, which may come after the spool's.
        async def is_announced() -> bool:
            return len(await app.instances()) == 1

        await until(is_announced, "its worker is among the instances")
    assert not app.is_running()


async def test_a_server_that_hangs_is_not_waited_for(server: RedisServer, tmp_path: Path) -> None:
    app = app_on(server, tmp_path / "spool.db")
    async with app:

        async def is_taken() -> bool:
            return (await app.touch("work", "before")).outcome == "coalesced"

        await until(is_taken)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            started = time.monotonic()
            assert (await app.touch("work", "u1")).outcome == "spooled"
            assert time.monotonic() - started > 0.2
            # The store's own deadline is much later: it was not that one.
            assert any("'touch' within 0.25 s" in reason for reason in app.health().reasons)
        finally:
            os.kill(server.pid, signal.SIGCONT)

        await until(lambda: not app.health().spooled)
        counts = (await app.counts())["work"]
        assert (counts.pending, counts.created_total) == (2, 2)
