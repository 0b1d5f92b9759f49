"""How long lists take over a million tasks: every kind of question, the rare match and the missing one included.

Each store is filled by `restore`, as a move from another store does it: a type with a million tasks, of which half are
completed and half wait, and a small one whose schedules are what most people look for. Printed is the 95th percentile
of one page of 50.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from rota.clock import HOUR, Instant
from rota.core.history import Resolution
from rota.core.task import Identity, Past, RunStatus, Settlement, Task, TaskStatus, Transition
from rota.core.task_type import TaskType
from rota.group_commit import MAX_GROUP
from rota.stores import open_store
from rota.stores.base import ClaimRequest, RunQuery, Snapshot, Store, TaskQuery
from rota.testing.redis_servers import redis_server
from rota.testing.servers import postgres_server
from rota.triggers import Interval, encode_trigger

__all__ = ["BIG", "SMALL", "TASKS", "USER", "fill_store", "lists"]

TASKS = int(os.environ.get("ROTA_LISTED", "1000000"))
RUNS = TASKS // 10
"""How many of the tasks are run, so that there is a run log."""
TIMES = 20
BIG, SMALL = "upkeep", "report"
USER = f"user{TASKS // 2:07}"

Ask = Callable[[], Awaitable[object]]


def lists() -> None:
    """Print the 95th percentile of each question, on each store."""
    system = shutil.which("redis-server")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        asyncio.run(_measure("SQLite", f"sqlite:///{root}/rota.db?synchronous=OFF"))
        with postgres_server(root / "postgres") as server, server.schema() as schema:
            asyncio.run(_measure("PostgreSQL", schema))
        with redis_server(root / "redis", executable=None if system is None else Path(system)) as redis:
            asyncio.run(_measure("Redis", redis.url))


async def _measure(name: str, url: str) -> None:
    store = open_store(url)
    await store.open()
    try:
        started = time.perf_counter()
        now = await fill_store(store)
        print(f"{name}: {TASKS:,} tasks, {RUNS:,} runs, filled in {time.perf_counter() - started:.0f} s", flush=True)
        worst = 0.0
        for what, ask in _questions(store, now).items():
            taken = await _p95(ask)
            worst = max(worst, taken)
            print(f"{name:<12}{what:<44}{taken:>9.1f} ms", flush=True)
        print(f"{name}: the slowest takes {worst:.1f} ms", flush=True)
    finally:
        await store.close()


async def fill_store(store: Store) -> Instant:
    """Put everything in; the time that it was made at."""
    now = await store.now()
    await store.put_types([TaskType(name=BIG, interval_ms=0), TaskType(name=SMALL)])
    await _fill(store, now)
    await _run(store)
    return now


def _tasks(now: Instant) -> Iterator[Task]:
    for number in range(TASKS):
        user_id = f"user{number:07}"
        # The first half is over and the second waits: whoever asks for one walks over the other first.
        status = TaskStatus.COMPLETED if number < TASKS // 2 else TaskStatus.PENDING
        if number == TASKS - 5:
            status = TaskStatus.FAILED
        over = not status.is_live
        yield Task(
            task_type=BIG,
            key=f"{user_id}:default:default",
            status=status,
            scheduled_at=now - HOUR + number % 1_000,
            created_at=now - HOUR,
            updated_at=now - HOUR,
            user_id=user_id,
            owner="everybody" if number % 2 else None,
            priority=5 if number % 3 else 7,
            finished_at=now if over else None,
            purge_at=now + HOUR if over else None,
        )
    for number in range(200):
        yield Task(
            task_type=SMALL,
            key=f"schedule{number}",
            status=TaskStatus.PAUSED if number % 2 else TaskStatus.PENDING,
            scheduled_at=now + HOUR,
            created_at=now,
            updated_at=now,
            owner=f"group{number % 3}",
            trigger=encode_trigger(Interval(HOUR, now)),
            trigger_mode="interval",
            next_fire=now + HOUR,
        )


async def _fill(store: Store, now: Instant) -> None:
    tasks = _tasks(now)

    async def fill() -> None:
        while group := [task for _, task in zip(range(5 * MAX_GROUP), tasks, strict=False)]:
            await store.restore([Snapshot(identity=task.identity, task=task, past=Past()) for task in group])

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(fill())


async def _run(store: Store) -> None:
    """Claim and settle; one in a thousand fails."""
    done = 0
    while done < RUNS:
        request = ClaimRequest(wants=[(BIG, MAX_GROUP)], instance="bench", claim_id=str(done), lease_ms=HOUR)
        tasks = (await store.claim(request)).tasks
        await store.settle(
            [
                Settlement(
                    task_type=task.task_type,
                    key=task.key,
                    token=task.token,
                    transition=Transition.FAIL if (done + at) % 1_000 == 0 else Transition.COMPLETE,
                )
                for at, task in enumerate(tasks)
            ]
        )
        done += len(tasks)


def _questions(store: Store, now: Instant) -> dict[str, Ask]:
    queries = {
        "all": TaskQuery(),
        "a type": TaskQuery(task_type=BIG),
        **{f"status={status}": TaskQuery(status=status) for status in TaskStatus},
        **{f"type, status={status}": TaskQuery(task_type=BIG, status=status) for status in TaskStatus},
        "small type, status=pending": TaskQuery(task_type=SMALL, status=TaskStatus.PENDING),
        "user_id": TaskQuery(user_id=USER),
        "user_id that is nobody": TaskQuery(user_id="nobody"),
        "user_id, status=completed": TaskQuery(user_id=USER, status=TaskStatus.COMPLETED),
        "owner of few": TaskQuery(owner="group1"),
        "owner of half of them": TaskQuery(owner="everybody"),
        "owner of half of them, status=failed": TaskQuery(owner="everybody", status=TaskStatus.FAILED),
        "owner of half of them, status=running": TaskQuery(owner="everybody", status=TaskStatus.RUNNING),
        "schedules": TaskQuery(schedules=True),
        "schedules of an owner": TaskQuery(schedules=True, owner="group1"),
        "schedules, status=paused": TaskQuery(schedules=True, status=TaskStatus.PAUSED),
        "schedules without paused": TaskQuery(schedules=True, without=TaskStatus.PAUSED),
        "search, found at once": TaskQuery(search="user0000007"),
        "search, not found": TaskQuery(search="no such thing"),
        "search, status=pending": TaskQuery(search="no such thing", status=TaskStatus.PENDING),
        "search among failed": TaskQuery(search="no such thing", status=TaskStatus.FAILED),
        "without completed": TaskQuery(task_type=BIG, without=TaskStatus.COMPLETED),
        "a cursor in the middle": TaskQuery(cursor=f"{BIG}/{USER}"),
    }
    runs = {
        "runs": RunQuery(),
        "runs of a type": RunQuery(task_type=BIG),
        "runs of a type without any": RunQuery(task_type=SMALL),
        "runs of a task": RunQuery(task_type=BIG, key=f"{USER}:default:default"),
        "runs of a key": RunQuery(key="nothing"),
        "runs of a user": RunQuery(user_id=USER),
        "runs of nobody": RunQuery(user_id="nobody"),
        "runs, status=error": RunQuery(status=RunStatus.ERROR),
        "runs, status=lost": RunQuery(status=RunStatus.LOST),
        "runs of a user, status=error": RunQuery(user_id=USER, status=RunStatus.ERROR),
        "runs of a type, status=skipped": RunQuery(task_type=BIG, status=RunStatus.SKIPPED),
    }
    last = Identity(BIG, f"user{TASKS - 1:07}:default:default")
    return {
        **{what: lambda query=query: store.find(query) for what, query in queries.items()},
        **{what: lambda query=query: store.runs(query) for what, query in runs.items()},
        "counts": store.counts,
        "next due by type": store.next_due_by_type,
        "queue position of the last in line": lambda: store.queue_position(last),
        "history of an hour": lambda: store.history(Resolution.MINUTE, now - HOUR),
        "export of a user": lambda: store.export_user(USER),
    }


async def _p95(ask: Ask) -> float:
    taken: list[float] = []
    for _ in range(TIMES):
        started = time.perf_counter()
        await ask()
        taken.append((time.perf_counter() - started) * 1_000)
    return sorted(taken)[math.ceil(TIMES * 0.95) - 1]


if __name__ == "__main__":
    lists()
