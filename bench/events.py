"""How long an event takes from its commit to its handler, and how many a second get there.

Each event is published when nothing else is going on; the handler notes how long ago its commit had returned. The
wake-ups are what is measured, not a poll: nothing here looks more often than it would in an application.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rota import Rota
from rota.database.tables.events import inbox
from rota.events.envelope import Event
from rota.testing.redis_servers import redis_server
from rota.testing.servers import postgres_server

__all__ = ["events"]

TYPE = "Bench.Event.Created"
EVENTS = 200
PAUSE = 0.03
MANY = 5_000
KEYS = 200
WARM = 200
TURNS = 6
DEADLINE = 120.0

_CHILD = """
import asyncio
from rota import Rota
from bench.events import note
app = Rota({config!r})
note(app, {path!r})
asyncio.run(app.run())
"""


def events() -> None:
    """Commit to handler on each bus, in one process and in two."""
    print(f"{'bus':<34}{'p50 ms':>8}{'p95 ms':>8}{'p99 ms':>8}{'events/s':>11}")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _row("local, SQLite synchronous=FULL", {"store": f"sqlite:///{root}/one.db"})
        with postgres_server(root / "postgres", durable=True) as server, server.schema() as url:
            _row("local, PostgreSQL 16", {"store": url})
        (root / "redis").mkdir()
        with redis_server(root / "redis") as redis:
            _row("Redis 6.2, SQLite outbox", {"store": f"sqlite:///{root}/two.db", "bus": redis.url})
        _kafka(root)
        _two_processes(root)
        _a_key_that_fails(root)


def _kafka(root: Path) -> None:
    from tests.kafka.real_kafka import KafkaAbsent, RealKafka, require

    try:
        require()
    except KafkaAbsent as absent:
        print(f"Kafka: not measured. {absent}")
        return
    (root / "kafka").mkdir()
    with RealKafka(root / "kafka") as kafka:
        _row("Kafka 4.3, SQLite outbox", {"store": f"sqlite:///{root}/three.db", "bus": kafka.url()})


def _row(name: str, config: Mapping[str, object]) -> None:
    waits, rate = asyncio.run(_measure(config))
    _print(name, waits, rate)


def _print(name: str, waits: list[float], rate: float | None) -> None:
    figures = "".join(f"{_at(share, waits):>8.1f}" for share in (0.5, 0.95, 0.99))
    print(f"{name:<34}{figures}{'' if rate is None else f'{rate:>11,.0f}'}", flush=True)


async def _measure(config: Mapping[str, object]) -> tuple[list[float], float]:
    app = Rota(dict(config))
    seen_at: dict[int, float] = {}
    seen = 0

    @app.consumer(TYPE, name="bench", concurrency=50)
    async def handle(event: Event) -> None:
        nonlocal seen
        seen += 1
        if event.payload is not None:
            seen_at[event.payload] = time.time()

    async with app:
        opened = await app.events()
        running = asyncio.create_task(app.run())
        await _warm_up(opened.outbox, lambda: seen)
        committed_at = await _publish_one_by_one(opened.outbox)
        await _until(lambda: len(seen_at) >= EVENTS)
        began = time.perf_counter()
        many = [Event(event_type=TYPE, aggregate_id=f"k{number % KEYS}") for number in range(MANY)]
        for start in range(0, MANY, 500):
            await opened.outbox.publish(*many[start : start + 500])
        await _until(lambda: seen >= WARM + EVENTS + MANY)
        rate = MANY / (time.perf_counter() - began)
        await app.stop()
        await running
    return _waits(committed_at, seen_at), rate


async def _warm_up(outbox: Any, seen: Callable[[], int]) -> None:
    """Whoever reads has joined, and a server that has just started is as fast as it gets."""
    for number in range(WARM):
        await outbox.publish(Event(event_type=TYPE, aggregate_id=f"k{number}"))
    await _until(lambda: seen() >= WARM)


async def _publish_one_by_one(outbox: Any) -> dict[int, float]:
    """When each was committed."""
    committed_at: dict[int, float] = {}
    for number in range(EVENTS):
        await outbox.publish(Event(event_type=TYPE, aggregate_id=f"k{number}", payload=number))
        committed_at[number] = time.time()
        await asyncio.sleep(PAUSE)
    return committed_at


def _waits(committed_at: Mapping[int, float], seen_at: Mapping[int, float]) -> list[float]:
    """How long each took; the first ones found everything cold."""
    return [max(0.0, seen_at[number] - at) for number, at in committed_at.items() if number >= 10]


def _at(share: float, waits: list[float]) -> float:
    """Milliseconds that such a share of them did not exceed."""
    return 1_000 * sorted(waits)[int(len(waits) * share)]


async def _until(holds: Any) -> None:
    deadline = time.monotonic() + DEADLINE
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("The events did not get through.")
        await asyncio.sleep(0.005)


def note(app: Rota, path: str) -> None:
    """In the other process: how long each took, a line each."""

    @app.consumer(TYPE, name="bench", concurrency=50)
    def handle(event: Event) -> None:
        with Path(path).open("a") as lines:
            lines.write(f"{event.payload} {time.time()}\n")


def _two_processes(root: Path) -> None:
    config: dict[str, object] = {"store": f"sqlite:///{root}/shared.db"}
    path = root / "waits"
    path.touch()
    committed_at = asyncio.run(_publish_to_child(config, path))
    lines = [line.split() for line in path.read_text().splitlines()]
    seen_at = {int(number): float(at) for number, at in lines}
    _print("local, SQLite, two processes", _waits(committed_at, seen_at), None)


async def _publish_to_child(config: dict[str, object], path: Path) -> dict[int, float]:
    code = _CHILD.format(config=config, path=str(path))
    app = Rota(dict(config))
    async with app:
        opened = await app.events()
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
        try:
            await asyncio.sleep(3.0)
            committed_at = await _publish_one_by_one(opened.outbox)
            await _until(lambda: len(path.read_text().splitlines()) >= EVENTS)
        finally:
            child.kill()
            await child.wait()
    return committed_at


def _a_key_that_fails(root: Path) -> None:
    """200 keys at 200 events a second, in turns with and without one more key whose events always fail."""
    without, beside, tried = asyncio.run(_measure_beside_a_failure({"store": f"sqlite:///{root}/failing.db"}))
    print(
        f"\na key that always fails, tried {tried:,} times beside {KEYS} others (local, SQLite):"
        f" p95 of the others {_at(0.95, without):.1f} ms without it, {_at(0.95, beside):.1f} ms with it,"
        f" {_at(0.95, beside) / _at(0.95, without) - 1:+.0%}"
    )


async def _measure_beside_a_failure(config: dict[str, object]) -> tuple[list[float], list[float], int]:
    app = Rota(dict(config))
    seen_at: dict[int, float] = {}
    tried = 0

    @app.consumer(TYPE, name="bench", concurrency=50)
    async def handle(event: Event) -> None:
        nonlocal tried
        if event.key == "bad":
            tried += 1
            raise ValueError("it never works")
        seen_at[event.payload] = time.time()

    waits: tuple[list[float], list[float]] = ([], [])
    logging.getLogger("rota.events").setLevel(logging.CRITICAL)
    async with app:
        opened = await app.events()
        running = asyncio.create_task(app.run())
        committed_at: dict[int, float] = {}
        for turn in range(TURNS):
            fails = turn % 2
            first = len(committed_at)
            for number in range(first, first + 4 * KEYS):
                more = (
                    [Event(event_type=TYPE, aggregate_id="bad", payload=number)] if fails and number % 10 == 0 else []
                )
                await opened.outbox.publish(
                    Event(event_type=TYPE, aggregate_id=f"k{number % KEYS}", payload=number), *more
                )
                committed_at[number] = time.time()
                await asyncio.sleep(1 / KEYS)
            await _until(lambda: len(seen_at) >= len(committed_at))
            waits[fails].extend(seen_at[number] - committed_at[number] for number in range(first, len(committed_at)))
            if fails:
                await _give_up_on_bad(opened)
        await app.stop()
        await running
    return *waits, tried


async def _give_up_on_bad(opened: Any) -> None:
    """What still fails is taken away, so that the next turn is without it."""
    await opened.database.write(lambda connection: connection.execute(inbox.delete().where(inbox.c.key == "bad")))
