"""Tasks in a dictionary: for unit tests, and the oracle that the other stores are compared with.

The simplest true implementation. It scans where others have an index, and forgets everything with the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import TypeVar

from msgspec.structs import replace

from rota.clock import Clock, Instant, Millis, SystemClock
from rota.core import bucket as buckets
from rota.core import token
from rota.core.bucket import Bucket
from rota.core.failure import FailureGroup, FailureKey
from rota.core.history import Resolution, Slice, SliceKey
from rota.core.lifecycle import Step
from rota.core.rank import rank
from rota.core.task import NO_PAST, Entry, Identity, Past, RunRecord, Settlement, Task, TaskStatus
from rota.keys import GLOBAL_KEY
from rota.stores.base import (
    DETAILED_RUNS,
    MAX_AHEAD,
    MAX_PAGE,
    MOST_COUNTED,
    Beat,
    Counts,
    Erasure,
    Failures,
    Instance,
    Page,
    QueuePosition,
    RunLeft,
    RunQuery,
    RunRef,
    RunSort,
    TaskQuery,
    TaskSort,
    TypeRecord,
    page_of,
)
from rota.stores.limits import check_cursor, check_find, check_identity, check_run, check_runs
from rota.stores.queries import tokens_now, unknown_type
from rota.stores.sorting import Place, place_of_cursor, place_of_run, run_place_of_cursor, sorted_page
from rota.stores.transaction import Completion, WholeTransaction, Written
from rota.stores.transactional import TransactionalStore
from rota.stores.users import belongs_to, is_erasable, is_newer, is_old_run, is_still_running

__all__ = ["MemoryStore"]

T = TypeVar("T")


class MemoryStore(TransactionalStore):
    """A store that lives as long as its process."""

    url = "memory://"

    def __init__(self, clock: Clock | None = None, *, call_timeout: float | None = None) -> None:
        super().__init__(in_flight=1, call_timeout=call_timeout)
        self._lock = threading.Lock()
        self._data = MemoryTransaction(clock or SystemClock())

    async def open(self) -> None:
        # A new one: an event belongs to the loop that first waited for it.
        self._poked = asyncio.Event()

    async def close(self) -> None:
        await self._drain()

    async def _transact(self, function: Callable[[WholeTransaction], T]) -> T:
        with self._lock:
            return function(self._data)

    def _transact_blocking(self, function: Callable[[WholeTransaction], T], timeout: float) -> T:
        with self._lock:
            return function(self._data)

    async def get(self, identities: Sequence[Identity]) -> list[Task | None]:
        return [self._data.tasks.get(identity) for identity in identities]

    async def find(self, query: TaskQuery) -> Page[Task]:
        check_find(query)
        return self._data.find(query)

    async def runs(self, query: RunQuery) -> Page[RunRecord]:
        check_runs(query)
        return self._data.find_runs(query)

    async def counts(self) -> dict[str, Counts]:
        return {name: Counts(**counts) for name, counts in self._data.counters.items()}

    async def instances(self) -> list[Instance]:
        return list(self._data.instances())

    async def next_due_by_type(self) -> dict[str, Instant]:
        return self._data.next_due_by_type()

    async def queue_position(self, identity: Identity, *, now: Instant | None = None) -> QueuePosition:
        check_identity(identity)
        return self._data.queue_position(identity, self._data.now() if now is None else now)

    async def history(
        self,
        resolution: Resolution,
        since_at: Instant,
        until_at: Instant | None = None,
        *,
        task_type: str | None = None,
    ) -> list[Slice]:
        return self._data.history(resolution, since_at, until_at, task_type)

    async def details(self, runs: Sequence[RunRef]) -> list[str | None]:
        for run in runs:
            check_run(run)
        return [self._data.details_of(run) for run in runs]

    async def failures(self, task_type: str | None = None, failure_id: str | None = None) -> list[Failures]:
        return self._data.failures(task_type, failure_id)

    async def erasures(self, *, with_done: bool = False) -> list[Erasure]:
        return self._data.erasures(with_done=with_done)


class MemoryTransaction:
    """The data, and what a step may do with it; the store's lock makes it atomic."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.tasks: dict[Identity, Task] = {}
        self.pasts: dict[Identity, Past] = {}
        self.run_log: list[RunRecord] = []
        self.counters: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._types: dict[str, TypeRecord] = {}
        self._notes: dict[str, str] = {}
        self._buckets: dict[str, Bucket] = {}
        self._completions: list[Completion] = []
        self._completed_for: defaultdict[Identity, set[str]] = defaultdict(set)
        self._slices: dict[tuple[Resolution, SliceKey], Slice] = {}
        self._details: defaultdict[Identity, dict[int, tuple[Instant, str]]] = defaultdict(dict)
        self._failure_groups: dict[FailureKey, FailureGroup] = {}
        self._erasures: dict[str, Erasure] = {}
        self._instances: dict[str, Instance] = {}
        self._swept_at: Instant | None = None
        self._last_token = 0
        self._last_run = 0

    def now(self) -> Instant:
        return self.clock.now()

    def poke(self) -> None:
        """There is no other instance."""

    def _entries(self, tasks: Iterable[Task]) -> list[Entry]:
        return [Entry(task, self.pasts.get(task.identity, NO_PAST)) for task in tasks]

    def load(self, identities: Collection[Identity]) -> Mapping[Identity, Entry]:
        return {identity: Entry(self.tasks.get(identity), self.pasts.get(identity, NO_PAST)) for identity in identities}

    def write(self, changes: Sequence[Written]) -> None:
        for identity, _, after in changes:
            _put(self.tasks, identity, after.task)
            _put(self.pasts, identity, None if after.past == NO_PAST else after.past)

    def claim_plain(self, task_type: str, tokens: Mapping[str, int], claimed: Step) -> bool:
        """There is no shorter way than the plain one."""
        return False

    def end_plain(self, task_type: str, succeeded: Mapping[str, Settlement], success: Step) -> Collection[str]:
        """There is no shorter way than the plain one."""
        return ()

    def known(self, after: Identity | None, limit: int) -> Sequence[Identity]:
        waiting = {identity for identity, types in self._completed_for.items() if types}
        everything = sorted(self.tasks.keys() | self.pasts.keys() | waiting)
        return [identity for identity in everything if after is None or identity > after][:limit]

    def due(self, task_type: str, now: Instant, limit: int) -> Sequence[Sequence[Entry]]:
        due = [task for task in self._queue(task_type) if task.scheduled_at <= now]
        due.sort(key=lambda task: (task.priority, task.scheduled_at, task.key))
        return [self._entries(list(lane)[:limit]) for _, lane in groupby(due, key=lambda task: task.priority)]

    def _queue(self, task_type: str) -> list[Task]:
        return [
            task
            for task in self.tasks.values()
            if task.task_type == task_type and task.status is TaskStatus.PENDING and not task.parked
        ]

    def next_due(self, task_type: str, after: Instant) -> Instant | None:
        return min((t.scheduled_at for t in self._queue(task_type) if t.scheduled_at > after), default=None)

    def expired_leases(self, now: Instant, limit: int) -> Sequence[Entry]:
        over = [task for task in self._running() if task.lease_until is not None and task.lease_until <= now]
        over.sort(key=lambda task: (task.lease_until or 0, task.identity))
        return self._entries(over[:limit])

    def _running(self) -> list[Task]:
        return [task for task in self.tasks.values() if task.status is TaskStatus.RUNNING]

    def extend_leases(self, until: Instant) -> int:
        short = [task for task in self._running() if (task.lease_until or 0) < until and not task.extended]
        for task in short:
            self.tasks[task.identity] = replace(task, lease_until=until, extended=True)
        return len(short)

    def set_back_leases(self, by_ms: Millis, until: Instant) -> None:
        for task in self._running():
            self.tasks[task.identity] = replace(task, lease_until=max((task.lease_until or 0) - by_ms, until))

    def claimed(self, instance: str, claim_id: str) -> Sequence[Entry]:
        mine = [task for task in self._running() if task.instance == instance and task.claim_id == claim_id]
        return self._entries(sorted(mine, key=lambda task: task.identity))

    def expired(self, now: Instant, limit: int) -> Sequence[Entry]:
        waiting = (TaskStatus.PENDING, TaskStatus.PAUSED)
        over = [
            task
            for task in self.tasks.values()
            if task.status in waiting and task.expires_at is not None and task.expires_at <= now
        ]
        over.sort(key=lambda task: (task.expires_at or 0, task.identity))
        return self._entries(over[:limit])

    def purgeable(self, now: Instant, limit: int) -> Sequence[Entry]:
        old = [task for task in self.tasks.values() if task.purge_at is not None and task.purge_at <= now]
        old.sort(key=lambda task: (task.purge_at or 0, task.identity))
        return self._entries(old[:limit])

    def forget(self, now: Instant, limit: int) -> int:
        old = [
            identity
            for identity, past in self.pasts.items()
            if identity not in self.tasks and (past.forget_at is None or past.forget_at <= now)
        ]
        for identity in old[:limit]:
            del self.pasts[identity]
        return len(old[:limit])

    def owned(self, task_type: str, owner: str) -> int:
        return sum(
            task.task_type == task_type and task.owner == owner and task.status.is_live for task in self.tasks.values()
        )

    # --- serials ---

    def lock_serials(self, serials: Sequence[tuple[str, str]], *, wait: bool) -> Collection[tuple[str, str]]:
        """The store's lock already holds everything."""
        return serials

    def running_under(self, task_type: str, serials: Collection[str]) -> Mapping[str, int]:
        under = [task.serial for task in self._running() if task.task_type == task_type]
        return Counter(serial for serial in under if serial is not None and serial in serials)

    def with_parked(self, task_type: str, serials: Collection[str]) -> Collection[str]:
        under = [task.serial for task in self._parked() if task.task_type == task_type]
        return {serial for serial in under if serial is not None and serial in serials}

    def parked(self, task_type: str, serial: str, aging_ms: Millis, limit: int) -> Sequence[Entry]:
        waiting = [task for task in self._parked() if task.task_type == task_type and task.serial == serial]
        waiting.sort(key=lambda task: rank(task, aging_ms))
        return self._entries(waiting[:limit])

    def _parked(self) -> list[Task]:
        return [task for task in self.tasks.values() if task.parked and task.status is TaskStatus.PENDING]

    def idle_serials(self, limit: int) -> Sequence[tuple[str, str]]:
        waiting = {(task.task_type, task.serial) for task in self._parked() if task.serial is not None}
        return sorted(pair for pair in waiting if not self.running_under(pair[0], [pair[1]]))[:limit]

    # --- types, counters, tokens ---

    def types(self) -> Mapping[str, TypeRecord]:
        return self._types

    def put_type(self, record: TypeRecord) -> None:
        self._types = {**self._types, record.task_type.name: record}

    def note(self, name: str, value: str, *, replace: bool) -> None:
        if replace or name not in self._notes:
            self._notes[name] = value

    def noted(self, name: str) -> str | None:
        return self._notes.get(name)

    def tokens(self, count: int, claim_id: str, now: Instant, above: int) -> Iterator[int]:
        last = token.last_before(self._last_token, token.floor_at(now), token.spread_of(claim_id))
        first = max(last, above) + 1
        self._last_token = first + count - 1
        return iter(range(first, first + count))

    def pending(self, task_type: str) -> int:
        return self.counters[task_type]["pending"]

    def count(self, deltas: Mapping[str, Mapping[str, int]]) -> None:
        for task_type, counts in deltas.items():
            for name, delta in counts.items():
                self.counters[task_type][name] += delta

    def bucket(self, name: str) -> Bucket | None:
        return self._buckets.get(name)

    def put_bucket(self, name: str, bucket: Bucket) -> None:
        self._buckets[name] = bucket

    # --- the run log, and what comes after ---

    def log(self, runs: Sequence[RunRecord]) -> None:
        for run in runs:
            self._last_run += 1
            self.run_log.append(replace(run, run_id=str(self._last_run)))

    def drop_runs(self, before: Instant, limit: int) -> int:
        old = [run for run in self.run_log[:limit] if run.started_at < before]
        dropped = {run.run_id for run in old}
        self.run_log = [run for run in self.run_log if run.run_id not in dropped]
        return len(old)

    def append_completions(self, completions: Sequence[Completion]) -> None:
        self._completions.extend(completions)

    def take_completions(self, limit: int) -> Sequence[Completion]:
        taken, self._completions = self._completions[:limit], self._completions[limit:]
        return taken

    def completed_for(self, identity: Identity) -> set[str]:
        return self._completed_for[identity]

    def mark_completed(self, identity: Identity, task_type: str, log_id: str | None = None) -> bool:
        self._completed_for[identity].add(task_type)
        return True

    def clear_completed(self, identities: Collection[Identity]) -> None:
        for identity in identities:
            self._completed_for.pop(identity, None)

    forget_completed = clear_completed

    # --- what ran, over time ---

    def slices(self, resolution: Resolution, keys: Collection[SliceKey]) -> Sequence[Slice]:
        return [self._slices[resolution, key] for key in keys if (resolution, key) in self._slices]

    def put_slices(self, resolution: Resolution, slices: Sequence[Slice]) -> None:
        self._slices.update({(resolution, each.key): each for each in slices})

    def drop_slices(self, resolution: Resolution, before: Instant) -> None:
        self._slices = {
            at: each for at, each in self._slices.items() if at[0] is not resolution or each.start_at >= before
        }

    def history(
        self, resolution: Resolution, since: Instant, until: Instant | None, task_type: str | None
    ) -> list[Slice]:
        found = [
            each
            for (of, _), each in self._slices.items()
            if of is resolution and each.start_at >= since and (until is None or each.start_at < until)
            if task_type is None or each.task_type == task_type
        ]
        return sorted(found, key=lambda each: each.key)

    # --- what a run leaves, and failures by groups ---

    def put_details(self, left: Sequence[RunLeft], user_ids: Sequence[str | None], now: Instant) -> None:
        for (run, details), _ in zip(left, user_ids, strict=True):
            kept = self._details[run.identity] | {run.token: (now, details)}
            self._details[run.identity] = dict(sorted(kept.items())[-DETAILED_RUNS:])

    def drop_details(self, identities: Collection[Identity]) -> None:
        for identity in identities:
            self._details.pop(identity, None)

    def drop_old_details(self, before: Instant, limit: int) -> None:
        for identity, kept in list(self._details.items()):
            self._details[identity] = {token: each for token, each in kept.items() if each[0] >= before}

    def details_of(self, run: RunRef) -> str | None:
        found = self._details.get(run.identity, {}).get(run.token)
        return None if found is None else found[1]

    def failure_groups(self, task_type: str) -> Sequence[FailureGroup]:
        return [group for (name, _), group in self._failure_groups.items() if name == task_type]

    def put_failure_groups(self, groups: Sequence[FailureGroup], dropped: Sequence[FailureKey]) -> None:
        self._failure_groups.update({group.key: group for group in groups})
        for key in dropped:
            self._failure_groups.pop(key, None)

    def drop_failure_groups(self, before: Instant) -> None:
        self._failure_groups = {key: each for key, each in self._failure_groups.items() if each.last_at >= before}

    def failures(self, task_type: str | None, failure_id: str | None) -> list[Failures]:
        found = [
            group
            for (name, id_), group in self._failure_groups.items()
            if task_type in (None, name) and failure_id in (None, id_)
        ]
        found.sort(key=lambda group: (-group.last_at, group.key))
        return [Failures(group, self._dead(group)) for group in found[:MAX_PAGE]]

    def _dead(self, group: FailureGroup) -> int:
        dead = (task for task in self.tasks.values() if task.status is TaskStatus.FAILED)
        return min(MOST_COUNTED, sum((task.task_type, task.failure) == group.key for task in dead))

    # --- one user's data ---

    def known_of(
        self, user_id: str, *, until: Instant | None = None, after: Identity | None = None, limit: int
    ) -> Sequence[Identity]:
        everything = self.known(after, len(self.tasks) + len(self.pasts) + len(self._completed_for))
        entries = self.load(everything)
        mine = [identity for identity in everything if belongs_to(user_id, identity, entries[identity])]
        return [identity for identity in mine if until is None or is_erasable(entries[identity], until)][:limit]

    def running_of(self, user_id: str, until: Instant) -> int:
        return sum(is_still_running(task, user_id, until) for task in self.tasks.values())

    def drop_runs_of(self, user_id: str, until: Instant, limit: int) -> int:
        old = [
            run
            for run in self.run_log
            if run.user_id == user_id and is_old_run(run, until, self.tasks.get(Identity(run.task_type, run.key)))
        ]
        dropped = {run.run_id for run in old[:limit]}
        for run in old[:limit]:
            self._details.get(Identity(run.task_type, run.key), {}).pop(run.token, None)
        self.run_log = [run for run in self.run_log if run.run_id not in dropped]
        return len(dropped)

    def drop_completions(self, user_id: str, until: Instant) -> None:
        self._completions = [
            each
            for each in self._completions
            if each.user_id != user_id or is_newer(self.tasks.get(Identity(each.task_type, each.key)), until)
        ]

    def erasure(self, user_id: str) -> Erasure | None:
        return self._erasures.get(user_id)

    def put_erasure(self, erasure: Erasure) -> None:
        self._erasures[erasure.user_id] = erasure

    def drop_erasures(self, before: Instant) -> None:
        self._erasures = {
            user_id: each for user_id, each in self._erasures.items() if each.done_at is None or each.done_at >= before
        }

    def erasures(self, *, with_done: bool) -> list[Erasure]:
        return [each for _, each in sorted(self._erasures.items()) if with_done or each.done_at is None]

    # --- instances ---

    def beat(self, beat: Beat, now: Instant) -> None:
        self._instances[beat.instance] = Instance(beat=beat, seen_at=now)

    def swept_at(self, now: Instant) -> Instant | None:
        return self._swept_at

    def set_swept_at(self, now: Instant) -> None:
        self._swept_at = now

    def instances(self) -> Sequence[Instance]:
        return [self._instances[name] for name in sorted(self._instances)]

    def leave(self, instance: str) -> None:
        self._instances.pop(instance, None)

    def drop_instances(self, before: Instant) -> int:
        silent = [name for name, instance in self._instances.items() if instance.seen_at < before]
        for name in silent:
            del self._instances[name]
        return len(silent)

    # --- queries ---

    def next_due_by_type(self) -> dict[str, Instant]:
        found: dict[str, Instant] = {}
        for task in self.tasks.values():
            if task.status is TaskStatus.PENDING:
                found[task.task_type] = min(task.scheduled_at, found.get(task.task_type, task.scheduled_at))
        return found

    def queue_position(self, identity: Identity, now: Instant) -> QueuePosition:
        record = self._types.get(identity.task_type)
        if record is None:
            raise unknown_type(identity.task_type, self._types)
        task = self.tasks.get(identity)
        return QueuePosition(
            record=record,
            task=task,
            past=self.pasts.get(identity, NO_PAST),
            now=now,
            ahead=0 if task is None else self._ahead(task, record.task_type.aging_ms, now),
            running=self.counters[identity.task_type]["running"],
            serial_running=0
            if task is None or task.serial is None
            else self.running_under(task.task_type, [task.serial]).get(task.serial, 0),
            tokens=tokens_now(
                record.effective.rate_limit, self._buckets.get(buckets.rate_bucket(identity.task_type)), now
            ),
            start_tokens=tokens_now(
                record.effective.start_limit, self._buckets.get(buckets.start_bucket(identity.task_type)), now
            ),
            arrived=tuple(sorted(self._completed_for.get(identity, ()))),
        )

    def _ahead(self, task: Task, aging_ms: Millis, now: Instant) -> int:
        if task.status is not TaskStatus.PENDING:
            return 0
        mine = rank(task, aging_ms)
        line = [each for each in self._queue(task.task_type) if each.scheduled_at <= now]
        line += [each for each in self._parked() if (each.task_type, each.serial) == (task.task_type, task.serial)]
        return min(MAX_AHEAD, sum(rank(each, aging_ms) < mine for each in line))

    def find(self, query: TaskQuery) -> Page[Task]:
        if query.sort is not TaskSort.KEY:
            found = ((Place.of(task, query.sort), task) for task in self.tasks.values() if _matches(task, query))
            return sorted_page(found, place_of_cursor(query), query.limit)
        after = None if query.cursor is None else check_cursor(query.cursor)
        matching = (
            self.tasks[identity]
            for identity in sorted(self.tasks)
            if (after is None or identity > after) and _matches(self.tasks[identity], query)
        )
        return page_of(list(islice(matching, query.limit + 1)), query.limit, lambda task: str(task.identity))

    def find_runs(self, query: RunQuery) -> Page[RunRecord]:
        if query.sort is not RunSort.NEWEST:
            found = ((place_of_run(run, query.sort), run) for run in self.run_log if _run_matches(run, query))
            return sorted_page(found, run_place_of_cursor(query.cursor), query.limit)
        before = None if query.cursor is None else int(query.cursor)
        matching = (
            run
            for run in reversed(self.run_log)
            if (before is None or int(run.run_id) < before) and _run_matches(run, query)
        )
        return page_of(list(islice(matching, query.limit + 1)), query.limit, lambda run: run.run_id)


def _put(table: dict[Identity, T], identity: Identity, value: T | None) -> None:
    if value is None:
        table.pop(identity, None)
    else:
        table[identity] = value


def _matches(task: Task, query: TaskQuery) -> bool:
    return (
        (query.task_type is None or task.task_type == query.task_type)
        and (not query.schedules or (task.trigger is not None and task.key != GLOBAL_KEY))
        and (query.status is None or task.status is query.status)
        and (query.user_id is None or task.user_id == query.user_id)
        and (query.owner is None or task.owner == query.owner)
        and (query.without is None or task.status is not query.without)
        and (query.failure is None or task.failure == query.failure)
        and (query.search is None or query.search in task.key or query.search in (task.user_id or ""))
        and (query.since_at is None or task.updated_at >= query.since_at)
        and (query.until_at is None or task.updated_at < query.until_at)
    )


def _run_matches(run: RunRecord, query: RunQuery) -> bool:
    return (
        (query.task_type is None or run.task_type == query.task_type)
        and (query.key is None or run.key == query.key)
        and (query.status is None or run.status is query.status)
        and (query.user_id is None or run.user_id == query.user_id)
        and (query.run_id is None or run.run_id == query.run_id)
        and (query.failure is None or run.failure == query.failure)
        and (query.since_at is None or run.ended_at >= query.since_at)
        and (query.until_at is None or run.ended_at < query.until_at)
    )
