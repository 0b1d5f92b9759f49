"""While Redis is away memories are captured all the same; when it is back, full or empty, all of the upkeep runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rota import Rota
from rota.memory import ChatMessagePush, Memory, install_memory
from rota.stores.redis.store import RedisStore
from rota.testing.redis_servers import RedisServer
from rota.testing.waiting import until

USERS = 200


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


async def push(memory: Memory, user_id: str) -> None:
    await memory.push_message(ChatMessagePush(user_id=user_id, content="I love hiking in the mountains."))


async def users_who_ran(app: Rota) -> set[str | None]:
    users, cursor = set[str | None](), None
    while True:
        page = await app.runs("memory_compression", limit=500, cursor=cursor)
        users |= {run.user_id for run in page.items}
        cursor = page.cursor
        if cursor is None:
            return users


async def everybody_ran(app: Rota) -> None:
    async def all_ran() -> bool:
        return len(await users_who_ran(app)) == USERS

    await until(all_ran, "everybody ran")


async def until_pending(app: Rota, memory: Memory, count: int) -> None:
    """Until so many wait in the store, and nobody in the spool: there go the touches that a busy Redis did not answer
    in a quarter of a second."""
    await memory.drain()

    async def are_pending() -> bool:
        counts = await app.counts()
        pending = counts["memory_compression"].pending if "memory_compression" in counts else 0
        return pending == count and app.health().spooled == 0

    await until(are_pending, f"{count} are pending")


@pytest.mark.parametrize("comes_back", ["full", "empty"])
async def test_nothing_is_lost_while_redis_is_away(own_redis: RedisServer, tmp_path: Path, comes_back: str) -> None:
    app, memory = an_app(own_redis, tmp_path)
    async with app:
        await app.start()
        await asyncio.to_thread(own_redis.stop)
        for number in range(USERS):
            # How long it takes is measured by `python -m bench.memory`. Here: that no answer needs the store.
            await push(memory, f"u{number}")
        await memory.drain()
        await until(lambda: app.health().spooled == USERS)
        if comes_back == "empty":
            for file in (tmp_path / "redis").glob("*.aof"):
                file.unlink()
        await asyncio.to_thread(own_redis.start)
        await until(lambda: app.health().spooled == 0)
        await everybody_ran(app)

        async def all_are_known() -> bool:
            known = {record.task_type.name for record in await app.types()}
            return known >= {"memory_compression", "data_cleanup", "statistics_update"}

        # What was touched is declared with its touch, what recurs at the next look of a store that came back empty.
        await until(all_are_known, "all types are known")


async def test_an_app_that_starts_while_redis_is_away_captures_too(own_redis: RedisServer, tmp_path: Path) -> None:
    own_redis.stop()
    app, memory = an_app(own_redis, tmp_path)
    async with app:
        for number in range(20):
            await push(memory, f"u{number}")
        await memory.drain()
        assert app.health().spooled == 20
        assert (await memory.figures("u7")).contexts == 1
        await asyncio.to_thread(own_redis.start)
        await until(lambda: app.health().spooled == 0)
        assert (await app.counts())["memory_compression"].pending == 20


async def test_a_store_that_was_emptied_learns_the_types_again(own_redis: RedisServer, tmp_path: Path) -> None:
    """Without any outage: what is touched is declared at once, what recurs begins anew at the next look."""
    app, memory = an_app(own_redis, tmp_path)
    async with app:
        await push(memory, "u1")
        await until_pending(app, memory, 1)
        own_redis.ask("FLUSHALL")
        await push(memory, "u2")
        await until_pending(app, memory, 1)
        own_redis.ask("FLUSHALL")
        await app.start()

        async def has_run() -> bool:
            return bool((await app.runs("statistics_update")).items)

        await until(has_run)


async def test_what_is_closed_has_told_the_scheduler(own_redis: RedisServer, tmp_path: Path) -> None:
    """Nobody drains: leaving the app does."""
    app, memory = an_app(own_redis, tmp_path)
    async with app:
        for number in range(20):
            await push(memory, f"u{number}")
    async with app:
        await until_pending(app, memory, 20)
