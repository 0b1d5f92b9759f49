"""Compression that is killed: a program that kills itself at every point where something could be half done.

Every statement and every commit of the database, before and after, is a failpoint. A child of this process opens a
copy of a database, compresses, and sends itself SIGKILL at the n-th point. Then the database is looked at, compressed
to the end, and looked at again. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import event
from tests.memory.stage import EMBEDDER, capture, everything, groups_of, problems_of

from rota import call_timeout
from rota.clock import SystemClock
from rota.database import Database
from rota.memory import Contexts, Owner, RuleMerger, Scope, State
from rota.memory.compression import Budget, Compression
from rota.testing.waiting import PATIENCE

call_timeout.DEFAULT_SECONDS = PATIENCE  # in a process of its own, on a busy machine

OWNER = Owner("u1", "phone", "coach")
THINGS = ("train to Berlin leaves at", "sister lives in Oslo since", "rent is due on day", "dog eats cups:")
POINTS, TIMES = 20, 10


def main(folder: Path) -> None:
    wrong: list[str] = []
    killed = 0
    for time in range(TIMES):
        template, ids = asyncio.run(prepare(folder, time))
        expected, points = in_child(lambda path=template: asyncio.run(uninterrupted(path)), folder)
        for number in range(POINTS):
            point = 1 + number * (points - 1) // (POINTS - 1)
            path = Path(shutil.copy(template, folder / "victim.db"))
            killed += kill_at(path, point)
            wrong += [f"time {time}, point {point}: {one}" for one in asyncio.run(look(path, ids, expected))]
            path.unlink()
    sys.stdout.write(json.dumps({"killed": killed, "tries": POINTS * TIMES, "wrong": wrong}))


async def prepare(folder: Path, seed: int) -> tuple[Path, list[int]]:
    chance = random.Random(seed)
    path = folder / f"template-{seed}.db"
    database = Database(url(path))
    await database.open()
    ids: list[int] = []
    for _ in range(12):
        texts = [f"{chance.choice(['My', 'The', 'So the'])} {chance.choice(THINGS)} {chance.randrange(3)}."]
        ids += await capture(Contexts(database), OWNER, texts)
    await database.close()
    return path, ids


def url(path: Path) -> str:
    # A process that is killed loses nothing that the kernel has: only a power cut would need more.
    return f"sqlite:///{path}?synchronous=OFF"


async def compress(database: Database) -> None:
    compression = Compression(Contexts(database), EMBEDDER, RuleMerger(), batch_size=5, settling_ms=-60_000)
    await compression.compress(Scope(OWNER.user_id), Budget(SystemClock()))


async def uninterrupted(template: Path) -> tuple[list[list[str]], int]:
    """What comes out if nobody is killed, and how many points that takes."""
    path = Path(shutil.copy(template, template.with_suffix(".whole.db")))
    passed = 0

    def count() -> None:
        nonlocal passed
        passed += 1

    database = Database(url(path))
    await database.open()
    watch(database, count)
    await compress(database)
    groups = await groups_of(Contexts(database), OWNER.user_id)
    await database.close()
    return sorted(sorted(group) for group in groups), passed


def kill_at(path: Path, point: int) -> bool:
    """Compress in a child that is killed at a point; whether it was."""
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(compress_until(path, point))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


async def compress_until(path: Path, point: int) -> None:
    left = point

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    database = Database(url(path))
    await database.open()
    watch(database, step)
    await compress(database)


def watch(database: Database, step: Callable[[], None]) -> None:
    """Call `step` before and after everything that the writer does."""
    for name in ("before_cursor_execute", "after_cursor_execute", "begin", "commit"):
        event.listen(database.engine, name, lambda *_: step())


async def look(path: Path, ids: list[int], expected: list[list[str]]) -> list[str]:
    database = Database(url(path))
    await database.open()
    try:
        contexts = Contexts(database)
        wrong = await problems_of(contexts, OWNER, ids)
        await compress(database)
        wrong += await problems_of(contexts, OWNER, ids)
        rows = await everything(contexts, OWNER.user_id)
        wrong += [f"{row.id} is still fresh" for row in rows if row.state is State.FRESH]
        groups = sorted(sorted(group) for group in await groups_of(contexts, OWNER.user_id))
        return wrong if groups == expected else [*wrong, f"the groups are {groups}, not {expected}"]
    finally:
        await database.close()


def in_child(work: Callable[[], tuple[list[list[str]], int]], folder: Path) -> tuple[list[list[str]], int]:
    """Run it in a child of its own, so that no thread of it is left here when others are forked."""
    answer = folder / "answer.json"
    child = os.fork()
    if child == 0:
        try:
            answer.write_text(json.dumps(work()))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    groups, points = json.loads(answer.read_text())
    return groups, points


if __name__ == "__main__":
    main(Path(sys.argv[1]))
