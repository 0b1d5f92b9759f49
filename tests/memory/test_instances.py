"""Two instances on one store: each user's memory is compressed once per interval, by one of them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rota import Rota
from rota.app.results import RunInfo
from rota.memory import ChatPush, Contexts, Memory, Message, Scope, State, install_memory
from rota.testing import FakeClock

ROOT = Path(__file__).parents[2]
USERS = 1_000
SAME = ("I love hiking in the mountains.", "I really love hiking in the mountains!")
INTERVAL = timedelta(seconds=4)


async def runs_of(app: Rota) -> list[RunInfo]:
    found: list[RunInfo] = []
    cursor = None
    while True:
        page = await app.runs("memory_compression", limit=500, cursor=cursor)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            return found


def says(user: int, *texts: str) -> ChatPush:
    return ChatPush(messages=[Message(content=text) for text in texts], user_id=f"u{user}")


def instance(url: str, clock: FakeClock) -> tuple[Rota, Memory]:
    app = Rota({"store": url, "scheduler": {"executor": {"max_concurrent": 20}}}, clock=clock)
    return app, install_memory(app)


async def test_a_thousand_users_at_once(sqlite_url: str, clock: FakeClock) -> None:
    """By a clock that is told: one run each, and no more however long they are silent."""
    (one, memory), (other, other_memory) = instance(sqlite_url, clock), instance(sqlite_url, clock)
    async with one, other:
        for user in range(USERS):
            await (memory if user % 2 else other_memory).push(says(user, *SAME))
        await asyncio.gather(memory.drain(), other_memory.drain())
        for _ in range(2):
            clock.advance("30m")
            await asyncio.gather(one.run_until_idle(), other.run_until_idle())

        runs = await runs_of(one)
        assert Counter(run.user_id for run in runs) == {f"u{user}": 1 for user in range(USERS)}
        assert len({run.instance for run in runs}) == 2
        for user in range(0, USERS, 50):
            page_of_user = await Contexts(await one.database()).page(Scope(f"u{user}"))
            assert [row.state for row in page_of_user.contexts] == [State.KEPT, State.MERGED, State.MERGED]


def start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@asynccontextmanager
async def processes(configuration: dict[str, Any], count: int = 2) -> AsyncGenerator[None]:
    """So many instances that work, each a process."""
    command = [sys.executable, "-m", "tests.memory.instance", json.dumps(configuration)]
    started = [await asyncio.to_thread(start, command) for _ in range(count)]
    try:
        for process in started:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
        yield
    finally:
        for process in started:
            await asyncio.to_thread(process.communicate)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["redis", "postgres"])
async def test_two_processes_share_a_thousand_users(
    request: pytest.FixtureRequest, sqlite_url: str, tmp_path: Path, kind: str
) -> None:
    """By the store's own clock: everybody speaks, and some speak again as soon as they were compressed."""
    url: str = request.getfixturevalue(f"{kind}_url")
    configuration: dict[str, Any] = {
        "store": url,
        "database": url if kind == "postgres" else sqlite_url,
        "spool": str(tmp_path / "spool.db"),
        "memory": {"settling": "1ms"},
        "scheduler": {
            "tasks": {"memory_compression": {"interval": INTERVAL.total_seconds()}},
            # Those who wait for the database are in each other's way, and a call may wait for five seconds.
            "executor": {"max_concurrent": 10},
        },
    }
    app = Rota(configuration)
    memory = install_memory(app)
    async with processes(configuration), app:
        await speak(memory, range(USERS), SAME)
        await until_ran(app, USERS, 1)
        await speak(memory, range(0, USERS, 5), SAME[:1])
        await until_ran(app, USERS // 5, 2)

        runs = await runs_of(app)
        assert {run.status for run in runs} == {"success"}
        assert len({run.instance for run in runs}) == 2
        for user in range(USERS):
            starts = sorted(run.started_at for run in runs if run.user_id == f"u{user}")
            assert all(later - earlier >= INTERVAL for earlier, later in pairwise(starts)), (user, starts)
        contexts = await memory.contexts()
        for user in range(0, USERS, 50):
            states = [row.state for row in (await contexts.page(Scope(f"u{user}"))).contexts]
            assert sorted(states) == [State.KEPT, State.MERGED, State.MERGED, State.MERGED]


async def speak(memory: Memory, users: Sequence[int], texts: Sequence[str]) -> None:
    for begin in range(0, len(users), 10):
        await asyncio.gather(*(memory.push(says(user, *texts)) for user in users[begin : begin + 10]))
    await memory.drain()


async def until_ran(app: Rota, users: int, times: int) -> None:
    """Until so many users have so many runs."""
    async with asyncio.timeout(240):
        while sum(count >= times for count in Counter(run.user_id for run in await runs_of(app)).values()) < users:  # noqa: ASYNC110 - the run log is in the store
            await asyncio.sleep(1)
