"""Twenty batches of fifty at once, with calls of 200 ms: how long until there is something, and until all is there.

Measured as whoever asked sees it, by what is streamed back, with the settings that everybody begins with. The histogram
of first responses, and how long a priority of 0 waits behind a stream of 10, are drawn to `build/bench/`.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import event

from bench.limits_asyncio import asyncio_rate
from rota import Rota
from rota.batches import BatchesPart, BatchHandle, Generated, GenerationRequest
from rota.batches.generators.offline import OfflineGenerator
from rota.batches.names import DETAIL_BATCH
from rota.core.task import Identity, NewTask
from rota.core.task_type import TaskType, TriggerMode
from rota.database.backend import Backend
from rota.stores.base import ClaimRequest
from rota.stores.memory import MemoryStore
from rota.testing.redis_servers import redis_server
from rota.testing.servers import postgres_server

__all__ = ["batches"]

BATCHES = 20
COUNT = 50
CALL_SECONDS = 0.2
WARM_UP_ROUNDS = 4
ROUNDS = 3
DEADLINE = 60.0
FOLDER = Path("build/bench")
LEVEL_MS = 30_000


class SlowGenerator(OfflineGenerator):
    """The offline one behind a wire: each call takes as long as a fast model does."""

    async def generate(self, request: GenerationRequest) -> Generated:
        await asyncio.sleep(CALL_SECONDS)
        return await super().generate(request)


class Seen(NamedTuple):
    """One batch, in seconds since it was asked for."""

    first: float
    some: float
    """Until there were ten items."""
    all: float


class Measured(NamedTuple):
    seen: list[Seen]
    to_outbox: list[float]
    """Milliseconds from the claim of a subtask until its request was in the outbox."""
    commits: float
    """Of the database, for each batch."""


def batches() -> None:
    """On one file, on PostgreSQL, and on Redis with PostgreSQL and Kafka."""
    print(
        f"{BATCHES} batches of {COUNT} at once, calls of {CALL_SECONDS * 1_000:.0f} ms, {ROUNDS} rounds; seconds (p95)"
    )
    # Machines are shared: two runs can be compared as far as this figure is the same.
    print(f"yardstick: {asyncio.run(asyncio_rate()):,.0f} empty asyncio tasks a second under a timeout")
    print(f"{'on':<32}{'first':>8}{'10 items':>10}{'all':>8}{'claim>outbox ms':>17}{'commits/batch':>15}")
    firsts: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        firsts["SQLite"] = _row("SQLite, synchronous=FULL", {"store": f"sqlite:///{root}/one.db"})
        with postgres_server(root / "postgres", durable=True) as server:
            with server.schema() as url:
                firsts["PostgreSQL"] = _row("PostgreSQL 16", {"store": url})
            (root / "redis").mkdir()
            with redis_server(root / "redis") as redis, server.schema() as url:
                firsts.update(_with_kafka(root, {"store": redis.url, "database": url}))
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "batches_first_response.svg").write_text(_histogram(firsts))
    waits = asyncio.run(_aging())
    (FOLDER / "batches_aging.svg").write_text(_line(waits))
    longest = max(seconds for _, seconds in waits)
    print(f"aging: behind a stream of priority 10, priority 0 waits {longest:.0f} s (bound: 10 levels of 30 s)")
    print(f"drawn to {FOLDER}/batches_first_response.svg and batches_aging.svg")


def _with_kafka(root: Path, config: Mapping[str, Any]) -> dict[str, list[float]]:
    from tests.kafka.real_kafka import KafkaAbsent, RealKafka, require

    try:
        require()
    except KafkaAbsent as absent:
        print(f"Redis, PostgreSQL, Kafka: not measured. {absent}")
        return {}
    (root / "kafka").mkdir()
    with RealKafka(root / "kafka") as kafka:
        return {"Redis+PG+Kafka": _row("Redis + PostgreSQL + Kafka 4.3", {**config, "bus": kafka.url()})}


def _row(name: str, config: Mapping[str, Any]) -> list[float]:
    found = asyncio.run(_measure(config))
    first, some, whole = ([getattr(one, what) for one in found.seen] for what in ("first", "some", "all"))
    print(
        f"{name:<32}{_p95(first):>8.2f}{_p95(some):>10.2f}{_p95(whole):>8.2f}"
        f"{_p95(found.to_outbox):>17.1f}{found.commits:>15.2f}",
        flush=True,
    )
    return first


async def _measure(config: Mapping[str, Any]) -> Measured:
    app = Rota(config, parts=[BatchesPart(generator=SlowGenerator())])
    async with app:
        # Before anything runs: who listens to a database must not change while one of its threads tells.
        commits = _count_commits((await app.host.own_database.open()).backend)
        job = asyncio.create_task(app.run(timeout=1))
        try:
            # Rounds that do not count pay for what is made once: statements, connections, consumers that join, and what
            # a broker that has just been started compiles, which takes it a few rounds.
            for _ in range(WARM_UP_ROUNDS):
                await asyncio.gather(*(_one(app, number) for number in range(BATCHES)))
            seen: list[Seen] = []
            to_outbox: list[float] = []
            commits.clear()
            for _ in range(ROUNDS):
                found = await asyncio.gather(*(_one(app, number) for number in range(BATCHES)))
                seen += [one for one, _ in found]
                to_outbox += [each for _, handle in found for each in await _to_outbox(app, handle)]
            return Measured(seen, to_outbox, len(commits) / (ROUNDS * BATCHES))
        finally:
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)


def _count_commits(backend: Backend) -> list[object]:
    """One for each commit of the database from now on."""
    commits: list[object] = []
    for engine in backend.engines:
        event.listen(engine, "commit", commits.append)
    return commits


async def _one(app: Rota, number: int) -> tuple[Seen, BatchHandle]:
    started = time.monotonic()
    handle = await app.batches.start("location_name", COUNT, style="norse", session_id=f"s{number}", seed=number)
    return await _follow(handle, started), handle


async def _follow(handle: BatchHandle, started: float) -> Seen:
    first = some = 0.0
    items = 0
    async with asyncio.timeout(DEADLINE):
        async for told in handle.events():
            if told.event == "item":
                items += 1
                if items == 10:
                    some = time.monotonic() - started
            elif told.event == "first_response":
                first = time.monotonic() - started
    assert items == COUNT, f"{items} items came, not {COUNT}"
    return Seen(first, some, time.monotonic() - started)


async def _to_outbox(app: Rota, handle: BatchHandle) -> list[float]:
    subtasks = await app.batches.subtasks(handle.id)
    store = await app.store()
    tasks = await store.get([Identity(DETAIL_BATCH, subtask.id) for subtask in subtasks])
    return [
        float(subtask.dispatched_at - task.claimed_at)
        for subtask, task in zip(subtasks, tasks, strict=True)
        if task is not None and task.claimed_at is not None and subtask.dispatched_at is not None
    ]


# --- aging, by a clock that is told ---


async def _aging() -> list[tuple[int, float]]:
    """One start a second, and one of priority 10 comes every second: how long each priority waits."""
    return [(priority, await _wait_of(priority)) for priority in range(11)]


async def _wait_of(priority: int) -> float:
    store, now = MemoryStore(), 1_000_000
    await store.open()
    await store.put_types([TaskType(name="t", trigger_mode=TriggerMode.ONCE, aging_ms=LEVEL_MS)])
    # The queue is never empty: two came before.
    early = [NewTask(task_type="t", key=f"early {number}", priority=10) for number in range(2)]
    await store.schedule([*early, NewTask(task_type="t", key="one", priority=priority)], now=now)
    for second in range(1, 1_000):
        now += 1_000
        await store.schedule([NewTask(task_type="t", key=f"stream {second}", priority=10)], now=now)
        asked = ClaimRequest(wants=[("t", 1)], instance="i", claim_id=f"c{second}", lease_ms=10_000_000)
        (task,) = (await store.claim(asked, now=now)).tasks
        if task.key == "one":
            return float(second)
    raise AssertionError(f"A task of priority {priority} never had its turn.")


# --- drawing ---


def _p95(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))] if ordered else 0.0


def _histogram(firsts: Mapping[str, Sequence[float]]) -> str:
    """First responses, in steps of 50 ms: one row for each world."""
    step, width, height = 0.05, 24, 90
    bins = 1 + max((int(one / step) for each in firsts.values() for one in each), default=0)
    parts: list[str] = []
    for row, (name, values) in enumerate(firsts.items()):
        top = row * (height + 40)
        counts = [sum(int(one / step) == at for one in values) for at in range(bins)]
        tallest = max(counts, default=1) or 1
        parts.append(f'<text x="10" y="{top + 14}">{name}: first response, n={len(values)}</text>')
        for at, count in enumerate(counts):
            tall = height * count / tallest * 0.8
            y = top + height - tall
            parts.append(f'<rect x="{10 + at * width}" y="{y:.1f}" width="{width - 2}" height="{tall:.1f}"/>')
        parts += [
            f'<text x="{10 + at * width}" y="{top + height + 14}">{at * step:.1f}s</text>'
            for at in range(0, bins + 1, 4)
        ]
    return _svg(40 + bins * width, len(firsts) * (height + 40), parts)


def _line(waits: Sequence[tuple[int, float]]) -> str:
    """How long each priority waits."""
    scale = 0.6
    parts = ['<text x="10" y="16">wait behind a stream of priority 10, by priority (s)</text>']
    for priority, seconds in waits:
        x, tall = 20 + priority * 40, seconds * scale
        parts.append(f'<rect x="{x}" y="{210 - tall:.1f}" width="30" height="{tall:.1f}"/>')
        parts.append(f'<text x="{x}" y="{206 - tall:.1f}">{seconds:.0f}</text>')
        parts.append(f'<text x="{x}" y="226">{priority}</text>')
    return _svg(480, 240, parts)


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    style = (
        "<style>text{font:12px sans-serif;fill:#333}rect{fill:#3b6ea5}</style>"
        '<rect width="100%" height="100%" style="fill:#fff"/>'
    )
    body = "".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">{style}{body}</svg>\n'
