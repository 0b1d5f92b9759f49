"""The scenarios. Each returns what it measured, and raises if a promise was broken."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos import oracle
from chaos.workers import Workers
from rota.core.task import Identity, NewTask, RunStatus, TaskStatus
from rota.core.task_type import TaskType, TriggerMode
from rota.errors import StoreUnavailable
from rota.stores import open_store
from rota.stores.base import RunQuery, Store

__all__ = ["Broken", "Freeze", "Kills", "Race", "freeze", "kills", "percentile", "race", "until"]

NOTE = TaskType(name="note", trigger_mode=TriggerMode.ONCE)
HOLD = TaskType(name="hold", trigger_mode=TriggerMode.ONCE)

PATIENCE = 120.0
"""Seconds that anything may take, on a busy machine too."""


class Broken(AssertionError):
    """A promise of Rota's was broken."""


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True)
class Race:
    """Many workers on one store."""

    tasks: int
    workers: int
    seconds: float
    shares: tuple[int, ...]


@dataclass(frozen=True)
class Kills:
    """Seconds from `kill -9` to the task running elsewhere, one per kill."""

    recoveries: tuple[float, ...]

    def percentile(self, share: float) -> float:
        return percentile(self.recoveries, share)


@dataclass(frozen=True)
class Freeze:
    """A worker that was frozen past its lease and came back."""

    stale_runs: int
    completed_runs: int


async def race(url: str, folder: Path, *, tasks: int, workers: int, limit: float = 180) -> Race:
    """Several worker processes empty one queue: every task exactly once, none lost."""
    store = open_store(url)
    await store.open()
    try:
        await store.put_types([NOTE, HOLD])
        news = [NewTask(task_type="note", key=f"k{number}") for number in range(tasks)]
        for start in range(0, tasks, 200):
            await store.schedule(news[start : start + 200])
        with Workers(url, folder) as processes:
            started = time.monotonic()
            for _ in range(workers):
                processes.start(concurrency=100)
            await until(lambda: _all_done(store, tasks), limit, processes)
            seconds = time.monotonic() - started
            seen = oracle.starts(processes.log)
        _check_once(seen, tasks)
        pids = [lines[0].pid for lines in seen.values()]
        return Race(tasks, workers, seconds, tuple(sorted(pids.count(pid) for pid in set(pids))))
    finally:
        await store.close()


async def _all_done(store: Store, tasks: int) -> bool:
    counts = (await store.counts()).get("note")
    return counts is not None and counts.completed == tasks and counts.pending == counts.running == 0


def _check_once(seen: dict[str, list[oracle.Line]], tasks: int) -> None:
    if len(seen) != tasks:
        raise Broken(f"{tasks - len(seen)} of {tasks} tasks never ran, though the store says that all are completed.")
    twice = [key for key, lines in seen.items() if len(lines) > 1]
    if twice:
        raise Broken(f"{len(twice)} tasks ran more than once, e.g. {twice[:3]}.")


async def kills(url: str, folder: Path, *, rounds: int, victims: int, lease: str = "10s", seed: int = 1) -> Kills:
    """Workers are killed in the middle of a task; a survivor takes over. Rounds one after another."""
    luck = random.Random(seed)
    recoveries: list[float] = []
    for number in range(rounds):
        place = folder / f"round-{number}"
        place.mkdir()
        recoveries += await _kill_round(url, place, victims, lease, luck, number)
    return Kills(tuple(recoveries))


async def _kill_round(
    url: str, folder: Path, victims: int, lease: str, luck: random.Random, number: int
) -> list[float]:
    keys = [f"r{number}-{victim}" for victim in range(victims)]
    store = open_store(url)
    await store.open()
    try:
        await store.put_types([NOTE, HOLD])
        await store.schedule([NewTask(task_type="hold", key=key) for key in keys])
        with Workers(url, folder, lease=lease) as processes:
            doomed = [processes.start(concurrency=1) for _ in range(victims)]
            await until(lambda: _started(processes.log, victims), PATIENCE, processes)
            processes.start(concurrency=victims)
            await until(lambda: _instances(store, victims + 1), PATIENCE, processes)
            killed_at: dict[int, float] = {}
            for process in doomed:
                await asyncio.sleep(luck.random())
                processes.kill(process)
                killed_at[process.pid] = time.time()
            await until(lambda: _completed(store, keys), PATIENCE, processes)
            await _check_lost_runs(store, keys)
            return _recoveries(processes.log, keys, killed_at)
    finally:
        await store.close()


async def _started(log: Path, count: int) -> bool:
    return len(oracle.starts(log)) >= count


async def _instances(store: Store, count: int) -> bool:
    now = await store.now()
    return sum(now - instance.seen_at < 3_000 for instance in await store.instances()) >= count


async def _completed(store: Store, keys: list[str]) -> bool:
    tasks = await store.get([Identity("hold", key) for key in keys])
    return all(task is not None and task.status is TaskStatus.COMPLETED for task in tasks)


async def _check_lost_runs(store: Store, keys: list[str]) -> None:
    for key in keys:
        runs = (await store.runs(RunQuery(task_type="hold", key=key))).items
        if [run.status for run in reversed(runs)] != [RunStatus.LOST, RunStatus.SUCCESS]:
            raise Broken(f"{key} left the runs {[run.status.value for run in runs]}; a lost and a success were due.")


def _recoveries(log: Path, keys: list[str], killed_at: dict[int, float]) -> list[float]:
    seen = oracle.starts(log)
    for key in keys:
        if len(seen[key]) != 2:
            raise Broken(f"{key} was started {len(seen[key])} times; its first run was killed, so 2 were due.")
    return [seen[key][1].at - killed_at[seen[key][0].pid] for key in keys]


async def freeze(url: str, folder: Path, *, lease: str = "10s") -> Freeze:
    """A frozen worker's task runs elsewhere; when it thaws, whatever it writes is refused."""
    store = open_store(url)
    await store.open()
    try:
        await store.put_types([NOTE, HOLD])
        await store.schedule([NewTask(task_type="hold", key="frozen")])
        with Workers(url, folder, lease=lease) as processes:
            victim = processes.start(concurrency=1)
            await until(lambda: _started(processes.log, 1), PATIENCE, processes)
            processes.start(concurrency=1)
            await until(lambda: _instances(store, 2), PATIENCE, processes)
            await _freeze_between_writes(url, processes, victim)
            await until(lambda: _completed(store, ["frozen"]), PATIENCE, processes)
            processes.thaw(victim)
            await until(lambda: _is_back(store), PATIENCE, processes)
            runs = (await store.runs(RunQuery(task_type="hold", key="frozen"))).items
            return Freeze(
                stale_runs=sum(run.status is RunStatus.LOST for run in runs),
                completed_runs=sum(run.status is RunStatus.SUCCESS for run in runs),
            )
    finally:
        await store.close()


async def _freeze_between_writes(url: str, processes: Workers, victim: subprocess.Popen[bytes]) -> None:
    """Whoever is frozen in the middle of a write keeps a SQLite file for itself: nobody can do anything about that."""
    other = open_store(url, call_timeout=3.0)
    await other.open()

    async def can_be_written_to() -> bool:
        processes.freeze(victim)
        try:
            await other.leave("nobody")
        except StoreUnavailable:
            processes.thaw(victim)
            return False
        return True

    try:
        await until(can_be_written_to, PATIENCE, processes)
    finally:
        await other.close()


async def _is_back(store: Store) -> bool:
    """The thawed worker ticks again, and has let go of the run that it lost."""
    now = await store.now()
    beats = [instance for instance in await store.instances() if now - instance.seen_at < 2_000]
    return len(beats) >= 2 and all(instance.beat.running == 0 for instance in beats)


async def until(condition: Callable[[], object], seconds: float, processes: Workers) -> None:
    """Wait for a condition; if it does not come, say what the workers said."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            holds = condition()
            if asyncio.iscoroutine(holds):
                holds = await holds
        except StoreUnavailable:
            holds = False  # no answer in time is no answer yet: it is the workers that are tried here
        if holds:
            return
        if time.monotonic() > deadline:
            busy = f"a promise is broken, or this machine is too busy (load {os.getloadavg()[0]:.0f})"
            raise Broken(f"Not within {seconds:g} s: {busy}. The workers said:\n{processes.said()}")
        await asyncio.sleep(0.05)
