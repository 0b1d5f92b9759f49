"""`python -m bench.memory`: what memory upkeep costs, and how well it groups.

Prints the quality of grouping on labelled pairs, the time and memory of grouping up to 100,000 contexts of one user,
a whole compression of a backlog on SQLite, and how long a push takes while Redis is down.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.memory_pairs import HELD_OUT_NEAR_MISSES, HELD_OUT_PARAPHRASES, NEAR_MISSES, PARAPHRASES
from rota import Rota
from rota.memory import (
    ChatPush,
    HashingEmbedder,
    Memory,
    MemorySettings,
    Message,
    NewContext,
    Owner,
    Scope,
    install_memory,
)
from rota.memory.grouping import REACH, THRESHOLD, assign
from rota.memory.vectors import cosines, to_bytes
from rota.stores.redis.store import RedisStore
from rota.testing.redis_servers import redis_server

__all__ = ["memory"]

SIZES = (10_000, 100_000)
BUDGET_SECONDS, BUDGET_MIB = 60.0, 512.0
"""What grouping the greatest of these may take: time of one core, and memory of the whole process."""
BUDGET_PUSH_MS = 50.0
"""What 99 of 100 pushes may take while Redis is down."""
BACKLOG = 5_000
PUSHES = 300


def memory() -> None:
    """Print all four."""
    quality()
    for size in SIZES:
        # Each size in a process of its own, so that the greatest memory is its own.
        subprocess.run([sys.executable, "-m", "bench.memory", str(size)], check=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        asyncio.run(backlog())
        asyncio.run(redis_down(Path(folder)))


def quality() -> None:
    """Precision and recall of "say the same" on the labelled pairs."""
    embedder = HashingEmbedder()

    def is_same(pair: tuple[str, str]) -> bool:
        vectors = embedder.embed(pair)
        return float(cosines(vectors[:1], vectors[1:])[0, 0]) >= THRESHOLD

    print(f"quality ({embedder.name}, threshold {THRESHOLD}):")
    for half, same, other in (
        ("first half", PARAPHRASES, NEAR_MISSES),
        ("held out", HELD_OUT_PARAPHRASES, HELD_OUT_NEAR_MISSES),
    ):
        found, mistaken = sum(map(is_same, same)), sum(map(is_same, other))
        print(
            f"  {half}: precision {found / (found + mistaken):.2f} ({mistaken} of {len(other)} near misses merged),"
            f" recall {found / len(same):.2f} ({found} of {len(same)} paraphrases)"
        )


def group(size: int) -> None:
    """Embed and group so many contexts of one user."""
    texts = notes(size)
    embedder = HashingEmbedder()
    started = time.perf_counter()
    embedder.embed(texts[:1_000])
    per_text = (time.perf_counter() - started) / 1_000
    # The vectors alone are kept: a matrix of floats for all of them at once would cost more than the grouping.
    rows = [embedder.embed(texts[start : start + 1_000]) for start in range(0, size, 1_000)]
    vectors = np.concatenate(rows)
    before = peak_mib()
    started, cpu = time.perf_counter(), time.process_time()
    joins = assign(vectors)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    leaders = int((joins == range(size)).sum())
    is_within = cpu <= BUDGET_SECONDS and peak_mib() <= BUDGET_MIB
    verdict = "within" if is_within else "OVER"
    print(
        f"grouping {size:>7,} contexts: {seconds:6.1f} s ({cpu:.1f} s of CPU), {leaders:,} leaders, reach {REACH:,};"
        f" memory {peak_mib():.0f} MiB, {peak_mib() - before:.0f} of it for grouping;"
        f" embedding {per_text * 1e6:.0f} us a text;"
        f" {verdict} the budget of {BUDGET_SECONDS:.0f} s of CPU and {BUDGET_MIB:.0f} MiB"
    )


def notes(count: int) -> list[str]:
    """Notes of which about one in five says what an earlier one said."""
    chance = random.Random(1)
    verbs = ("called", "met", "wrote to", "paid", "visited", "thanked", "forgot", "invited")
    names = [
        f"{first}{last}" for first in ("An", "Bo", "Cle", "Da", "El", "Fi") for last in ("na", "ris", "man", "der")
    ]
    things = ("about the rent", "in Oslo", "for the concert", "with flowers", "because of the dog", "at the station")
    made: list[str] = []
    for number in range(count):
        if made and chance.random() < 0.2:
            made.append(f"Well, {made[max(0, number - chance.randrange(1, 500))]}")
        else:
            made.append(f"I {chance.choice(verbs)} {chance.choice(names)} {chance.choice(things)}, number {number}.")
    return made


async def backlog() -> None:
    """Compress a backlog of one user, from and to SQLite (synchronous=FULL)."""
    app = Rota("sqlite:///backlog.db")
    memory = install_memory(app)
    async with app:
        contexts = await memory.contexts()
        texts = notes(BACKLOG)
        for start in range(0, BACKLOG, 500):
            some = texts[start : start + 500]
            await contexts.add(
                Owner("u1"),
                [NewContext(text=text) for text in some],
                embedder=memory.embedder.name,
                embeddings=to_bytes(memory.embedder.embed(some)),
            )
        memory.settings = MemorySettings(settling_ms=-60_000)
        started = time.perf_counter()
        done = await memory.compress(Scope("u1"))
        seconds = time.perf_counter() - started
    print(
        f"compressing a backlog of {BACKLOG:,} on SQLite: {seconds:.1f} s, {BACKLOG / seconds:,.0f} contexts/s,"
        f" {done.merged:,} merged into {done.groups:,} groups"
    )


async def redis_down(folder: Path) -> None:
    """How long a push takes while Redis is away, and that everything is run once it is back."""
    with redis_server(folder / "redis", appendonly=True, appendfsync="always") as server:
        configuration = {
            "spool": str(folder / "spool.db"),
            "database": f"sqlite:///{folder}/rota.db",
            "scheduler": {"tasks": {"memory_compression": {"interval": "1s"}}, "executor": {"max_concurrent": 50}},
        }
        app = Rota(configuration, store=RedisStore(server.url))
        memory = install_memory(app)
        async with app:
            await app.run_until_idle()
            await asyncio.to_thread(server.stop)
            times = [await timed_push(memory, f"u{number}") for number in range(PUSHES)]
            await memory.drain()
            spooled = app.health().spooled
            await asyncio.to_thread(server.start)
            started = time.perf_counter()
            while app.health().spooled:  # noqa: ASYNC110 - health is a picture, not an event
                await asyncio.sleep(0.01)
            back = time.perf_counter() - started
            pending = (await app.counts())["memory_compression"].pending
    times.sort()
    p99 = times[int(len(times) * 0.99)]
    verdict = "within" if p99 <= BUDGET_PUSH_MS else "OVER"
    print(
        f"push with Redis down, {PUSHES} users: p50 {times[len(times) // 2]:.1f} ms,"
        f" p99 {p99:.1f} ms, {verdict} the budget of {BUDGET_PUSH_MS:.0f} ms;"
        f" {spooled} spooled, {pending} of them tasks {back:.1f} s after it was back"
    )


async def timed_push(memory: Memory, user_id: str) -> float:
    started = time.perf_counter()
    push = ChatPush(messages=[Message(content="I love hiking in the mountains.")], user_id=user_id)
    await memory.push(push)
    return 1_000 * (time.perf_counter() - started)


def peak_mib() -> float:
    factor = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * factor / 2**20


if __name__ == "__main__":
    if len(sys.argv) > 1:
        group(int(sys.argv[1]))
    else:
        memory()
