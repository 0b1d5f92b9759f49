"""What a million waiting tasks cost: memory a task, and how much slower a claim becomes."""

from __future__ import annotations

import asyncio
import math
import shutil
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rota.core.task import Activity, Settlement, Transition
from rota.core.task_type import TaskType
from rota.group_commit import MAX_GROUP
from rota.keys import UserKeyBuilder
from rota.stores import open_store
from rota.stores.base import ClaimRequest, Store
from rota.testing.redis_servers import RedisServer, redis_server

__all__ = ["Pending", "measure_pending", "print_pending"]

FEW, MANY = 1_000, 1_000_000
CLAIMS = 300
CLAIM_SIZE = 50


@dataclass(frozen=True)
class Pending:
    """One store at a thousand and at a million waiting tasks; a claim's times are in milliseconds."""

    store: str
    bytes_a_task: float | None
    few_p50: float
    few_p99: float
    many_p50: float
    many_p99: float


def print_pending(pending: Sequence[Pending]) -> None:
    for one in pending:
        size = "" if one.bytes_a_task is None else f"{one.bytes_a_task:.0f} bytes a pending task with plain ids; "
        print(
            f"{one.store}: {size}claim of {CLAIM_SIZE} at {FEW:,}: p50 {one.few_p50:.1f} ms, p99 {one.few_p99:.1f} ms;"
            f" at {MANY:,}: p50 {one.many_p50:.1f} ms, p99 {one.many_p99:.1f} ms;"
            f" p99 ratio {one.many_p99 / one.few_p99:.2f}"
        )


def measure_pending() -> list[Pending]:
    """Bytes a pending task on Redis, and the claim's p50 and p99 at a thousand and at a million, on both."""
    system = shutil.which("redis-server")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with redis_server(root / "redis", executable=None if system is None else Path(system)) as server:
            redis = asyncio.run(_measure("Redis", server.url, server))
        return [redis, asyncio.run(_measure("SQLite", f"sqlite:///{root}/rota.db", None))]


async def _measure(name: str, url: str, server: RedisServer | None) -> Pending:
    store = open_store(url)
    await store.open()
    try:
        await store.put_types([TaskType(name="upkeep", interval_ms=0)])
        await _fill(store, 0, FEW)
        few = await _claims(store)
        before = _used(server)
        await _fill(store, FEW, MANY)
        size = None if server is None else (_used(server) - before) / (MANY - FEW)
        return Pending(name, size, *few, *await _claims(store))
    finally:
        await store.close()


async def _fill(store: Store, start: int, end: int) -> None:
    """First-time tasks, as activity makes them: user, device and agent."""
    build = UserKeyBuilder().build_key
    numbers = iter(range(start, end, MAX_GROUP))

    async def fill() -> None:
        for first in numbers:
            users = [f"user{number}" for number in range(first, min(first + MAX_GROUP, end))]
            await store.touch(
                [
                    Activity(task_type="upkeep", key=build(user), user_id=user, device_id="default", agent_id="default")
                    for user in users
                ]
            )

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(fill())


async def _claims(store: Store) -> tuple[float, float]:
    """p50 and p99 of a claim in milliseconds; what is claimed is released, so that as many wait as before."""
    taken: list[float] = []
    for _ in range(CLAIMS):
        request = ClaimRequest(
            wants=[("upkeep", CLAIM_SIZE)], instance="bench", claim_id=uuid.uuid4().hex, lease_ms=60_000
        )
        started = time.perf_counter()
        claimed = await store.claim(request)
        taken.append((time.perf_counter() - started) * 1_000)
        assert len(claimed.tasks) == CLAIM_SIZE
        await store.settle(
            [
                Settlement(task_type=task.task_type, key=task.key, token=task.token, transition=Transition.RELEASE)
                for task in claimed.tasks
            ]
        )
    taken.sort()
    return taken[CLAIMS // 2], taken[math.ceil(CLAIMS * 0.99) - 1]


def _used(server: RedisServer | None) -> int:
    if server is None:
        return 0
    return int(cast("dict[str, int]", server.ask("INFO", "memory"))["used_memory"])
