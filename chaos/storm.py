"""The storm: workers are killed at random every second, from the first task to the last.

The oracle says afterwards what really ran, when, in which process and under which token. Held against it:

- nothing is lost: every task that was acknowledged has run to its end and is completed (or `failed` as poison, if
  it was there at three crashes);
- no identity ran twice at once: a later run starts only after the earlier one has ended or its process was killed;
- a token is never used twice, and what a dead run's token would write is refused, during the storm and after it.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from chaos import oracle
from chaos.names import STORM_TYPES
from chaos.scenarios import Broken, percentile, until
from chaos.workers import Workers
from rota.core.outcome import Answer, ScheduleOutcome
from rota.core.task import Identity, NewTask, Renewal, Settlement, TaskStatus, Transition
from rota.core.task_type import TaskType, TriggerMode
from rota.stores import open_store
from rota.stores.base import Store

__all__ = ["Storm", "storm"]

GROUP = 200
BACKLOG = 400
"""Pending tasks at most: with a long queue before it, a task that is taken back would wait for its turn and not for
its lease, and the recovery measured would be that of the queue."""
CONCURRENCY = 25
LOOK_EVERY = 10
"""Kills between two rounds of stale writes: reading the oracle's whole log takes a while."""


@dataclass(frozen=True)
class Storm:
    """What the storm did, and how it ended."""

    tasks: int
    seconds: float
    kills: int
    recoveries: tuple[float, ...]
    """Seconds from the kill to the next start, of every run that was killed in the middle."""
    poisoned: int
    reruns: int
    """Runs that had ended, but whose process was killed before it could say so."""
    stale_writes: int

    def percentile(self, share: float) -> float:
        return percentile(self.recoveries, share)


@dataclass
class Attempt:
    """One run as the oracle saw it."""

    key: str
    token: int
    pid: int
    started_at: float
    ended_at: float | None = None


@dataclass
class _Field:
    """The workers on the field, and the fallen."""

    processes: Workers
    size: int
    alive: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    killed_at: dict[int, float] = field(default_factory=dict[int, float])

    @property
    def written(self) -> int:
        """How much the oracle was told so far, in bytes."""
        log = self.processes.log
        return log.stat().st_size if log.exists() else 0

    def fill(self) -> None:
        self._check()
        while len(self.alive) < self.size:
            self.alive.append(self.processes.start(concurrency=CONCURRENCY))

    def kill_one(self, luck: random.Random) -> None:
        victim = self.alive.pop(luck.randrange(len(self.alive)))
        # The moment before the signal: nothing that starts earlier can be excused by this kill.
        self.killed_at[victim.pid] = time.time()
        self.processes.kill(victim)

    def _check(self) -> None:
        for process in self.alive:
            if process.poll() is not None:
                raise Broken(
                    f"A worker exited by itself with {process.returncode}. They said:\n{self.processes.said()}"
                )


async def storm(
    url: str,
    folder: Path,
    *,
    tasks: int = 50_000,
    workers: int = 4,
    every: float = 1.0,
    lease: str = "10s",
    seed: int = 1,
    limit: float = 900,
) -> Storm:
    """Tasks of five types through workers that die, one every `every` seconds; measured and checked."""
    store = open_store(url)
    await store.open()
    try:
        types = [TaskType(name=name, trigger_mode=TriggerMode.ONCE) for name in STORM_TYPES]
        await store.put_types(types)
        with Workers(url, folder, lease=lease) as processes:
            field_ = _Field(processes, workers)
            started = time.monotonic()
            feeding = asyncio.create_task(_feed(store, tasks))
            refused = await _rage(store, field_, feeding, every, random.Random(seed), limit)
            await feeding
            await until(lambda: _is_over(store, tasks), 120, processes)
            seconds = time.monotonic() - started
            return await _judge(store, field_, tasks, seconds, refused)
    finally:
        await store.close()


# --- the storm itself ---


async def _feed(store: Store, tasks: int) -> None:
    """All the tasks, as fast as the workers take them."""
    news = [NewTask(task_type=name, key=key) for name, key in _identities(tasks)]
    for start in range(0, tasks, GROUP):
        while await _pending(store) > BACKLOG:  # noqa: ASYNC110  # a store has no transition for "there is room again"
            await asyncio.sleep(0.01)
        answers = await store.schedule(news[start : start + GROUP])
        if any(answer.outcome is not ScheduleOutcome.CREATED for answer in answers):
            raise Broken("A new task was not created.")


def _identities(tasks: int) -> Iterable[Identity]:
    for number in range(tasks):
        name = STORM_TYPES[number % len(STORM_TYPES)]
        yield Identity(name, f"{name}-{number}")


async def _pending(store: Store) -> int:
    return sum(counts.pending for name, counts in (await store.counts()).items() if name in STORM_TYPES)


async def _rage(
    store: Store, field_: _Field, feeding: asyncio.Task[None], every: float, luck: random.Random, limit: float
) -> int:
    """Kill and replace until everything was fed; how many stale writes were refused meanwhile."""
    deadline = time.monotonic() + limit
    refused = written = 0
    field_.fill()
    while not feeding.done():
        await asyncio.wait([feeding], timeout=every)
        # Where processes start slowly, all would be killed before they have done anything, and it would never end.
        if field_.written > written:
            written = field_.written
            field_.kill_one(luck)
            field_.fill()
            if len(field_.killed_at) % LOOK_EVERY == 0:
                attempts = _attempts(field_.processes.log)
                refused += await _write_stale(store, _superseded(attempts, field_.killed_at))
        if time.monotonic() > deadline:
            feeding.cancel()
            raise Broken(f"The storm was not over after {limit:g} s. The workers said:\n{field_.processes.said()}")
    return refused


async def _is_over(store: Store, tasks: int) -> bool:
    counts = [counts for name, counts in (await store.counts()).items() if name in STORM_TYPES]
    return sum(one.completed + one.failed for one in counts) == tasks


# --- stale writers ---


def _superseded(attempts: Mapping[str, list[Attempt]], killed_at: Mapping[int, float]) -> list[Attempt]:
    """Runs that were killed in the middle and whose task has been started again since, under another token."""
    return [
        earlier
        for runs in attempts.values()
        for earlier, _ in pairwise(runs)
        if earlier.ended_at is None and earlier.pid in killed_at
    ]


async def _write_stale(store: Store, stale: list[Attempt]) -> int:
    """What the dead would write if they came back: each must be refused."""
    for start in range(0, len(stale), GROUP):
        page = stale[start : start + GROUP]
        settlements = [
            Settlement(
                task_type=_type_of(one), key=one.key, token=one.token, transition=Transition.FAIL, reason="stale"
            )
            for one in page
        ]
        renewals = [Renewal(_type_of(one), one.key, one.token) for one in page]
        answers = await store.settle(settlements) + await asyncio.to_thread(store.renew, renewals, 10_000)
        wrong = [
            (one.key, reply.answer.value)
            for one, reply in zip(page * 2, answers, strict=True)
            if reply.answer is not Answer.STALE
        ]
        if wrong:
            raise Broken(f"{len(wrong)} stale writes were not refused, e.g. {wrong[:3]}.")
    return 2 * len(stale)


def _type_of(attempt: Attempt) -> str:
    return attempt.key.partition("-")[0]


# --- the judgement ---


async def _judge(store: Store, field_: _Field, tasks: int, seconds: float, refused: int) -> Storm:
    attempts = _attempts(field_.processes.log)
    poisoned = await _check_all_ended(store, attempts, tasks)
    _check_one_at_a_time(attempts, field_.killed_at)
    refused += await _write_stale(store, _superseded(attempts, field_.killed_at))
    await _check_all_ended(store, attempts, tasks)
    killed = _superseded(attempts, field_.killed_at)
    followed = {(earlier.key, earlier.token): later for runs in attempts.values() for earlier, later in pairwise(runs)}
    return Storm(
        tasks=tasks,
        seconds=seconds,
        kills=len(field_.killed_at),
        recoveries=tuple(followed[one.key, one.token].started_at - field_.killed_at[one.pid] for one in killed),
        poisoned=poisoned,
        reruns=sum(earlier.ended_at is not None for runs in attempts.values() for earlier, _ in pairwise(runs)),
        stale_writes=refused,
    )


def _attempts(log: Path) -> dict[str, list[Attempt]]:
    """The runs of each key, in the order in which they started."""
    found: defaultdict[str, dict[int, Attempt]] = defaultdict(dict)
    for line in oracle.read(log):
        if line.what == "start":
            if line.token in found[line.key]:
                raise Broken(f"The token {line.token} of {line.key} was used twice.")
            found[line.key][line.token] = Attempt(line.key, line.token, line.pid, line.at)
        else:
            found[line.key][line.token].ended_at = line.at
    return {key: sorted(runs.values(), key=lambda run: run.started_at) for key, runs in found.items()}


async def _check_all_ended(store: Store, attempts: Mapping[str, list[Attempt]], tasks: int) -> int:
    """Every task is there and done, and has really run; how many ended as poison."""
    identities = list(_identities(tasks))
    poisoned = 0
    for start in range(0, tasks, GROUP):
        page = identities[start : start + GROUP]
        for identity, task in zip(page, await store.get(page), strict=True):
            runs = attempts.get(identity.key, [])
            if task is not None and task.status is TaskStatus.FAILED and task.reason == "poison":
                poisoned += 1
            elif task is None or task.status is not TaskStatus.COMPLETED:
                raise Broken(f"{identity} is lost: it is {'absent' if task is None else task.status.value}.")
            elif not any(run.ended_at is not None for run in runs):
                raise Broken(f"{identity} is completed, but never ran to its end.")
    return poisoned


def _check_one_at_a_time(attempts: Mapping[str, list[Attempt]], killed_at: Mapping[int, float]) -> None:
    for runs in attempts.values():
        for earlier, later in pairwise(runs):
            over_at = earlier.ended_at if earlier.ended_at is not None else killed_at.get(earlier.pid)
            if over_at is None:
                raise Broken(f"{earlier.key} was started again, while its first process was neither done nor dead.")
            if later.started_at < over_at:
                raise Broken(f"{earlier.key} ran twice at once: {earlier} and {later}.")
            if later.token <= earlier.token:
                raise Broken(
                    f"{earlier.key} ran under the token {later.token} after {earlier.token}: a fence needs more."
                )
