"""How long the pages of failures take over 100,000 failed runs in 50 groups, each a dead letter, on each store.

The runs are claimed and settled as a worker does it, with a traceback for each, and counted by groups as a worker's
recorder does it. The pages come from a `rota up` of its own.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from pathlib import Path

import httpx

from bench.service import measured, serving
from rota.clock import HOUR, MINUTE, Instant
from rota.core.distinct import number_of
from rota.core.failure import Failure, FailureReport
from rota.core.run_details import Line, RunDetails, encode_details
from rota.core.task import NewTask, Settlement, Task, Transition
from rota.core.task_type import TaskType
from rota.group_commit import MAX_GROUP
from rota.stores import open_store
from rota.stores.base import ClaimRequest, Store
from rota.testing.redis_servers import redis_server
from rota.testing.servers import postgres_server

__all__ = ["failures"]

RUNS = int(os.environ.get("ROTA_FAILED", "100000"))
TYPES = tuple(f"shop_{number}" for number in range(5))
GROUPS_OF_A_TYPE = 10
USERS = 5_000
_TRACEBACK = "Traceback (most recent call last):\n" + "\n".join(
    f'  File "shop/cards.py", line {line}, in charge\n    gateway.charge(card, amount)' for line in range(12)
)


def failures() -> None:
    """Print the 95th percentile of each page, on each store."""
    system = shutil.which("redis-server")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        database = f"sqlite:///{root}/database.db"
        _measure("SQLite", f"sqlite:///{root}/rota.db?synchronous=OFF", root)
        with postgres_server(root / "postgres") as server, server.schema() as schema:
            _measure("PostgreSQL", schema, root)
        with redis_server(root / "redis", executable=None if system is None else Path(system)) as redis:
            _measure("Redis", redis.url, root, database)


def _measure(name: str, url: str, folder: Path, database: str | None = None) -> None:
    started = time.perf_counter()
    asyncio.run(_fill(url))
    print(
        f"{name}: {RUNS:,} failed runs in {len(TYPES) * GROUPS_OF_A_TYPE} groups,"
        f" filled in {time.perf_counter() - started:.0f} s",
        flush=True,
    )
    served = serving(url, folder, "--no-worker", database=database)
    with served as service, httpx.Client(cookies=service.cookies, timeout=30) as client:
        groups = client.get(f"{service.url}/api/failures").json()["items"]
        assert len(groups) == len(TYPES) * GROUPS_OF_A_TYPE, len(groups)
        assert sum(group["count"] for group in groups) == sum(group["dead"] for group in groups) == RUNS
        one = f"{groups[0]['task_type']}/{groups[0]['id']}"
        paths = ["/failures", f"/failures?type={TYPES[0]}", f"/failures/{one}", "/", "/dead-letters"]
        paths += [f"/dead-letters?type={groups[0]['task_type']}&failure={groups[0]['id']}"]
        paths += ["/api/failures", f"/api/failures/{one}"]
        slowest = max(measured(client, service.url, path) for path in paths)
        print(f"{name}: the slowest takes {slowest:.0f} ms", flush=True)


async def _fill(url: str) -> None:
    store = open_store(url)
    await store.open()
    try:
        await store.put_types([TaskType(name=name, max_retries=0) for name in TYPES])
        for name in TYPES:
            await _fail(store, name, RUNS // len(TYPES))
    finally:
        await store.close()


async def _fail(store: Store, name: str, runs: int) -> None:
    """So many runs of a type, spread over two days, each failing of one of its kinds."""
    now = await store.now()
    for start in range(0, runs, MAX_GROUP):
        numbers = range(start, min(runs, start + MAX_GROUP))
        at = now - 47 * HOUR + (47 * HOUR * start) // runs
        await store.schedule([_task(name, number, at) for number in numbers], now=at)
        request = ClaimRequest(wants=[(name, MAX_GROUP)], instance="bench", claim_id=f"{name}{start}", lease_ms=HOUR)
        tasks = (await store.claim(request, now=at)).tasks
        await store.settle([_settlement(task, int(task.key)) for task in tasks], now=at + MINUTE)
        await store.count_failures([_report(task, int(task.key), at + MINUTE) for task in tasks], now=at + MINUTE)


def _task(name: str, number: int, at: Instant) -> NewTask:
    return NewTask(task_type=name, key=str(number), user_id=f"u{number % USERS}", scheduled_at=at)


def _failure(number: int) -> Failure:
    kind = number % GROUPS_OF_A_TYPE
    return Failure(f"PaymentError{kind}", "shop/cards.py in charge", f"card <n> was declined for the reason {kind}")


def _settlement(task: Task, number: int) -> Settlement:
    return Settlement(
        task_type=task.task_type,
        key=task.key,
        token=task.token,
        transition=Transition.FAIL,
        reason="error",
        error=f"PaymentError: card {number} was declined",
        failure=_failure(number).id,
        details=encode_details(
            RunDetails(traceback=_TRACEBACK, lines=(Line(1, f"charging {number}", "info", "shop"),), host="bench")
        ),
    )


def _report(task: Task, number: int, at: Instant) -> FailureReport:
    failure = _failure(number)
    return FailureReport(
        task_type=task.task_type,
        id=failure.id,
        kind=failure.kind,
        place=failure.place,
        message=failure.message,
        users=(number_of(task.user_id or ""),),
        at=at,
    )
