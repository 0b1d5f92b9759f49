"""Several processes: killed at random, and kept to the rates that were allowed, all of them together."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.batches.scene import Scene, World, opened_scene

from rota.batches import BatchHandle, BatchStatus, Subtask
from rota.batches.limits import limits_of
from rota.batches.section import BatchesConfig
from rota.database.tables.batches import batch_events, batch_items, batch_subtasks
from rota.testing.waiting import until

ROOT = Path(__file__).parents[2]
FUZZ = bool(os.environ.get("ROTA_FUZZ"))
KILLS = 100 if FUZZ else 4
# Each takes half a minute: with ROTA_FUZZ everywhere, else where what is killed, and what is shared, differ most.
killed_on = pytest.mark.parametrize("world", ["sqlite", "postgres", "redis"] if FUZZ else ["redis"], indirect=True)
rated_on = pytest.mark.parametrize("world", ["sqlite", "postgres", "redis"] if FUZZ else ["postgres"], indirect=True)


class Crew:
    """Processes that do the work."""

    def __init__(self, configuration: dict[str, Any], seconds: float, log: Path, *, throttles: bool) -> None:
        self.log = log
        self._arguments = [json.dumps(configuration), str(seconds), str(log), "throttling" if throttles else "willing"]
        self.running: list[subprocess.Popen[str]] = []

    def begin(self) -> None:
        command = [sys.executable, "-m", "tests.batches.instance", *self._arguments]
        self.running.append(
            subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )

    def wait_for(self, one: subprocess.Popen[str]) -> None:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"

    def kill(self, one: subprocess.Popen[str]) -> None:
        one.kill()
        one.wait()
        self.running.remove(one)
        _close(one)

    def end(self) -> None:
        for one in self.running:
            if one.stdin is not None:
                one.stdin.close()
        for one in self.running:
            try:
                one.wait(30)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
            _close(one)

    def calls(self) -> list[tuple[float, str]]:
        """When somebody was asked for which subtask."""
        lines = self.log.read_text().split("\n")[:-1] if self.log.exists() else []
        return sorted((float(at), subtask) for at, _, subtask in map(str.split, lines))


def _close(one: subprocess.Popen[str]) -> None:
    for pipe in (one.stdin, one.stdout):
        if pipe is not None:
            pipe.close()


@contextmanager
def crew(
    size: int, configuration: dict[str, Any], log: Path, seconds: float = 0.05, *, throttles: bool = False
) -> Generator[Crew]:
    made = Crew(configuration, seconds, log, throttles=throttles)
    try:
        for _ in range(size):
            made.begin()
        for one in made.running:
            made.wait_for(one)
        yield made
    finally:
        made.end()


def _configuration(world: World, **batches: Any) -> dict[str, Any]:
    return {**world.settings, "lease": "3s", "batches": batches}


async def _rows(scene: Scene, handle: BatchHandle) -> Iterator[Any]:
    work = await scene.work()
    queries = (
        select(batch_items.c.outcome, batch_items.c.normal).where(batch_items.c.batch_id == handle.id),
        select(batch_events.c.event).where(batch_events.c.batch_id == handle.id).order_by(batch_events.c.number),
        select(batch_subtasks.c.status).where(batch_subtasks.c.batch_id == handle.id),
    )
    found = [await work.database.read(lambda c, query=query: c.execute(query).all()) for query in queries]
    return iter(found)


async def _check(scene: Scene, handle: BatchHandle) -> None:
    """Items, counts and events say the same, and nothing is there twice."""
    batch = await scene.batch(handle)
    items, events, subtasks = await _rows(scene, handle)
    kept = [normal for outcome, normal in items if outcome == "kept"]
    told = Counter(event for (event,) in events)
    assert batch.status is BatchStatus.COMPLETED, batch
    assert len(kept) == len(set(kept)) == batch.items == told["item"]
    assert (told["accepted"], told["first_response"], told["completed"]) == (1, 1, 1)
    statuses = Counter(status for (status,) in subtasks)
    assert (statuses["done"], statuses["failed"]) == (batch.done, batch.failed)
    assert batch.done + batch.failed == batch.expected == len(subtasks)
    assert batch.events == len(events)


@killed_on
@pytest.mark.timeout(3_000 if FUZZ else 300)
async def test_processes_may_be_killed_at_any_time(world: World, tmp_path: Path) -> None:
    """Workers, relays, agents and collectors: items = counts = events, no batch open, nothing twice."""
    chance = random.Random(4)
    configuration = _configuration(world)
    async with opened_scene(World(world.name, configuration)) as scene:
        with crew(3, configuration, tmp_path / "calls") as busy:
            handles = [await scene.start(50, session_id=f"s{number}") for number in range(20)]
            for _ in range(KILLS):
                await asyncio.sleep(chance.uniform(0.05, 0.8))  # that is what is tried: a kill at any time
                busy.kill(chance.choice(busy.running))
                busy.begin()
                if FUZZ and not await _any_open(scene, handles):
                    handles += [await scene.start(50, session_id=f"s{number}") for number in range(20)]
            for handle in handles:
                await until(lambda handle=handle: _is_over(scene, handle), "every batch has ended", seconds=200)
            for handle in handles:
                await _check(scene, handle)


async def _any_open(scene: Scene, handles: list[BatchHandle]) -> bool:
    return any([not await _is_over(scene, handle) for handle in handles[-20:]])


async def _is_over(scene: Scene, handle: BatchHandle) -> bool:
    return not (await scene.batch(handle)).status.is_open


@rated_on
@pytest.mark.timeout(300)
async def test_rates_hold_over_all_processes(world: World, tmp_path: Path) -> None:
    """Four of them, each of which meets a 429, and no window, however long, has more starts than the bucket allows."""
    allowed = BatchesConfig(requests_per_minute=1_200)
    configuration = _configuration(world, requests_per_minute=allowed.requests_per_minute)
    limit = limits_of(allowed).calls
    assert limit is not None
    async with opened_scene(World(world.name, configuration)) as scene:
        with crew(4, configuration, tmp_path / "calls", seconds=0.01, throttles=True) as busy:
            handles = [await scene.start(50, session_id=f"s{number}") for number in range(20)]
            for handle in handles:
                await until(lambda handle=handle: _is_over(scene, handle), "every batch has ended", seconds=120)
            starts = sorted([await _claimed_at(scene, one) for h in handles for one in await scene.subtasks(h)])
            calls = busy.calls()
    assert len({subtask for _, subtask in calls}) == len(starts)
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            seconds = (starts[last] - starts[first]) / 1_000
            assert last - first + 1 <= limit.rate * seconds + limit.burst + 1


async def _claimed_at(scene: Scene, subtask: Subtask) -> int:
    """By the clock that the bucket goes by."""
    task = await scene.task(subtask)
    assert task is not None
    assert task.claimed_at is not None
    return task.claimed_at
