"""A store and a clock, with short words for what the tests do again and again.

Every call carries the clock's `now`, so a test says when things happen and no store's own clock matters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count

import msgspec
import pytest
from msgspec.structs import replace

from rota.clock import HOUR, SECOND, Instant, Millis
from rota.core.outcome import Answer, Reply, Scheduled, ScheduleOutcome, Touched
from rota.core.task import (
    Activity,
    Change,
    Identity,
    NewTask,
    Renewal,
    RunRecord,
    Settlement,
    Task,
    TaskStatus,
    Transition,
)
from rota.core.task_type import TaskType
from rota.stores.base import Beat, Claimed, ClaimRequest, Counts, Purged, RunQuery, Store, TaskQuery, Tick
from rota.testing.clock import FakeClock
from rota.triggers import Interval, Policy, encode_trigger

__all__ = ["LEASE", "SETTLING", "WORK", "Suite", "World", "hourly", "policy"]

WORK = "work"
"""The type that tests use unless they need another."""

LEASE: Millis = 10 * SECOND

SETTLING = (
    Transition.COMPLETE,
    Transition.DISCARD,
    Transition.RETRY,
    Transition.FAIL,
    Transition.SNOOZE,
    Transition.RELEASE,
)
"""How a run can be settled."""


def hourly(anchor_at: Instant, every_ms: Millis = HOUR) -> str:
    """A stored trigger: on the grid from `anchor_at`."""
    return encode_trigger(Interval(every_ms, anchor_at))


def policy(**fields: object) -> str:
    """A stored series policy."""
    return msgspec.json.encode(replace(Policy(), **fields)).decode()


class World:
    """One store at one time."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self._claims = count(1)

    @property
    def now(self) -> Instant:
        return self.clock.now()

    # --- types ---

    async def type(self, name: str = WORK, **settings: object) -> TaskType:
        """Register a type: the defaults, and what is given."""
        task_type = replace(TaskType(name=name), **settings)
        await self.store.put_types([task_type])
        return task_type

    # --- making work ---

    async def schedule(self, key: str = "k", task_type: str = WORK, **fields: object) -> Scheduled:
        new = replace(NewTask(task_type=task_type, key=key), **fields)
        return (await self.store.schedule([new], now=self.now))[0]

    async def created(self, key: str = "k", task_type: str = WORK, **fields: object) -> Task:
        """The task that `schedule` makes."""
        task = (await self.schedule(key, task_type, **fields)).task
        assert task is not None
        return task

    async def series(self, key: str = "k", task_type: str = WORK, **fields: object) -> Task:
        """A task that recurs every hour, the first time in an hour."""
        return await self.created(key, task_type, **{"trigger": hourly(self.now), **fields})

    async def series_outcome(self, key: str = "k", task_type: str = WORK) -> ScheduleOutcome:
        """What asking for a series leads to."""
        return (await self.schedule(key, task_type, trigger=hourly(self.now))).outcome

    async def touch(self, key: str = "k", task_type: str = WORK, **fields: object) -> Touched:
        activity = replace(Activity(task_type=task_type, key=key, user_id="u1"), **fields)
        return (await self.store.touch([activity], now=self.now))[0]

    async def update(self, key: str = "k", task_type: str = WORK, **fields: object) -> Reply:
        change = replace(Change(task_type=task_type, key=key), **fields)
        return (await self.store.update([change], now=self.now))[0]

    # --- running it ---

    async def claimed(
        self,
        limit: int = 1,
        types: Sequence[str] = (WORK,),
        *,
        instance: str = "i1",
        claim_id: str | None = None,
        lease_ms: Millis | None = LEASE,
        exclude: frozenset[Identity] = frozenset(),
        in_all: int | None = None,
        running: Mapping[str, int] | None = None,
        own: Collection[str] = (),
    ) -> Claimed:
        request = ClaimRequest(
            wants=[(name, limit) for name in types],
            instance=instance,
            claim_id=claim_id or f"claim-{next(self._claims)}",
            lease_ms=lease_ms,
            exclude=exclude,
            limit=in_all,
            running=running or {},
            own=frozenset(own),
        )
        return await self.store.claim(request, now=self.now)

    async def claim(self, limit: int = 1, types: Sequence[str] = (WORK,), *, instance: str = "i1") -> list[Task]:
        return (await self.claimed(limit, types, instance=instance)).tasks

    async def claim_one(self, task_type: str = WORK, *, instance: str = "i1") -> Task:
        """The one task that is due."""
        tasks = await self.claim(1, (task_type,), instance=instance)
        assert len(tasks) == 1, f"nothing of type {task_type} is due at {self.now}"
        return tasks[0]

    async def claim_due(self, key: str = "k", task_type: str = WORK) -> Task:
        """Go to when the task is due and claim it."""
        task = await self.task(key, task_type)
        assert task is not None
        self.clock.set(max(self.now, task.scheduled_at))
        return await self.claim_one(task_type)

    async def settle(self, task: Task, transition: Transition = Transition.COMPLETE, **fields: object) -> Reply:
        settled = Settlement(task_type=task.task_type, key=task.key, token=task.token, transition=transition)
        return (await self.store.settle([replace(settled, **fields)], now=self.now))[0]

    async def run(self, transition: Transition = Transition.COMPLETE, task_type: str = WORK, **fields: object) -> Task:
        """Claim the one that is due and settle it; the task afterwards."""
        reply = await self.settle(await self.claim_one(task_type), transition, **fields)
        assert reply.answer is Answer.OK
        assert reply.task is not None
        return reply.task

    def renew(self, task: Task, progress: str | None = None, lease_ms: Millis = LEASE) -> Reply:
        renewal = Renewal(task.task_type, task.key, task.token, progress)
        return self.store.renew([renewal], lease_ms, now=self.now)[0]

    # --- what people ask for ---

    async def apply(self, transition: Transition, key: str = "k", task_type: str = WORK) -> Reply:
        return (await self.store.apply(transition, [Identity(task_type, key)], now=self.now))[0]

    # --- duties ---

    async def tick(self, instance: str = "i1", types: tuple[str, ...] = (WORK,), lease_ms: Millis = LEASE) -> Tick:
        return await self.store.tick(Beat(instance=instance, types=types, lease_ms=lease_ms), now=self.now)

    async def tick_past_lease(self, instance: str = "i2") -> list[Task]:
        """Sweep every two seconds, as instances do, until every lease that is not renewed has run out."""
        reaped: list[Task] = []
        for _ in range(LEASE // (2 * SECOND) + 1):
            reaped += (await self.tick(instance)).reaped
            self.clock.advance(2)
        return reaped + (await self.tick(instance)).reaped

    async def crash(self, key: str = "k", task_type: str = WORK) -> Task:
        """Claim the one that is due, and let its instance die."""
        claimed = await self.claim_one(task_type, instance="doomed")
        assert claimed.key == key
        await self.tick_past_lease()
        return await self.there(key, task_type)

    async def prune(self, run_ttl_ms: Millis = 30 * 24 * HOUR, limit: int = 1_000) -> Purged:
        return await self.store.prune(run_ttl_ms, limit, now=self.now)

    async def pump(self) -> int:
        return await self.store.pump(now=self.now)

    # --- queries ---

    async def task(self, key: str = "k", task_type: str = WORK) -> Task | None:
        return (await self.store.get([Identity(task_type, key)]))[0]

    async def there(self, key: str = "k", task_type: str = WORK) -> Task:
        task = await self.task(key, task_type)
        assert task is not None, f"there is no task {task_type}/{key}"
        return task

    async def status(self, key: str = "k", task_type: str = WORK) -> TaskStatus | None:
        task = await self.task(key, task_type)
        return None if task is None else task.status

    async def all_tasks(self, task_type: str | None = WORK, limit: int = 50, **query: object) -> list[Task]:
        asked = replace(TaskQuery(task_type=task_type, limit=limit), **query)
        page = await self.store.find(asked)
        tasks = list(page.items)
        while page.cursor is not None:
            page = await self.store.find(replace(asked, cursor=page.cursor))
            tasks += page.items
        return tasks

    async def runs(self, key: str | None = "k", task_type: str = WORK, limit: int = 50) -> list[RunRecord]:
        """Every run record, oldest first."""
        return (await self.all_runs(RunQuery(task_type=task_type, key=key, limit=limit)))[::-1]

    async def all_runs(self, asked: RunQuery) -> list[RunRecord]:
        """What all pages of an answer hold, newest first."""
        page = await self.store.runs(asked)
        records = list(page.items)
        while page.cursor is not None:
            page = await self.store.runs(replace(asked, cursor=page.cursor))
            records += page.items
        return records

    async def counts(self, task_type: str = WORK) -> Counts:
        return (await self.store.counts()).get(task_type, Counts())

    async def scanned(self, task_type: str = WORK) -> dict[TaskStatus, int]:
        """How many tasks there are in each state, counted one by one."""
        tasks = await self.all_tasks(task_type)
        return {status: sum(task.status is status for task in tasks) for status in TaskStatus}

    async def check_counts(self, task_type: str = WORK) -> None:
        """The kept counters equal a scan."""
        kept, scanned = await self.counts(task_type), await self.scanned(task_type)
        assert {status: getattr(kept, status) for status in TaskStatus} == scanned


class Suite:
    """What every class of the suite starts from."""

    @pytest.fixture
    def world(self, store: Store, clock: FakeClock) -> World:
        return World(store, clock)

    @pytest.fixture
    async def work(self, world: World) -> TaskType:
        """The type `work`: interval 30 minutes, 3 retries after 10 s, 20 s, 40 s at most."""
        return await world.type()
