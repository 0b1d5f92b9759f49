"""A real store that fails on demand.

    store = FaultyStore(MemoryStore())
    with store.down("claim", "settle"):          # raises StoreUnavailable, nothing happens
        ...
    store.torn("settle", calls=1)                # the next settle takes effect, and its reply is lost
    store.slow(0.2)                              # every verb, until `heal`

Without a verb every verb is meant. A fault lasts for so many calls, until the end of its `with` block, or until `heal`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from threading import Lock
from types import TracebackType
from typing import TypeVar

from rota.clock import Instant, Millis
from rota.core.failure import FailureGroup, FailureReport
from rota.core.history import Resolution, Slice
from rota.core.outcome import Answer, Reply, Scheduled, Settled, Touched
from rota.core.task import Activity, Change, Identity, NewTask, Renewal, RunRecord, Settlement, Task, Transition
from rota.core.task_type import TaskType
from rota.errors import StoreUnavailable
from rota.stores.base import (
    DEFAULT_PAGE,
    Beat,
    Claimed,
    ClaimRequest,
    Counts,
    Erasure,
    Failures,
    Instance,
    Page,
    Purged,
    QueuePosition,
    Restored,
    RunLeft,
    RunQuery,
    RunRef,
    Snapshot,
    Store,
    Taken,
    TaskQuery,
    Tick,
    TypeRecord,
)

__all__ = ["Fault", "FaultyStore"]

T = TypeVar("T")


class _Kind(StrEnum):
    DOWN = "down"
    SLOW = "slow"
    TORN = "torn"


class Fault:
    """One thing that is wrong with the store. As a context manager it is put right at the end of the block."""

    def __init__(
        self, owner: FaultyStore, kind: _Kind, verbs: frozenset[str], calls: int | None, seconds: float = 0.0
    ) -> None:
        self._owner, self.kind, self._verbs, self.seconds = owner, kind, verbs, seconds
        self.calls_left = calls
        self.hits = 0

    def covers(self, verb: str) -> bool:
        """Whether the fault strikes this verb; counts the call if it does."""
        if (self._verbs and verb not in self._verbs) or self.calls_left == 0:
            return False
        if self.calls_left is not None:
            self.calls_left -= 1
        self.hits += 1
        return True

    def heal(self) -> None:
        """Put this fault right; doing so twice is harmless."""
        self._owner.remove(self)

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.heal()


class FaultyStore(Store):
    """Every verb of the store it wraps, with faults in between. `calls` counts what was asked for, by verb."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.url = store.url
        self.group_size = store.group_size
        self.calls: dict[str, int] = {}
        self._faults: list[Fault] = []
        # `renew` comes from the heartbeat's own thread.
        self._lock = Lock()

    # --- faults ---

    def down(self, *verbs: str, calls: int | None = None) -> Fault:
        """The store is away: `StoreUnavailable`, and nothing happens."""
        return self._add(_Kind.DOWN, verbs, calls)

    def slow(self, seconds: float, *verbs: str, calls: int | None = None) -> Fault:
        """The store takes its time before it does anything."""
        return self._add(_Kind.SLOW, verbs, calls, seconds)

    def torn(self, *verbs: str, calls: int | None = None) -> Fault:
        """The reply is lost: the call takes effect, and then raises `StoreUnavailable`."""
        return self._add(_Kind.TORN, verbs, calls)

    def heal(self) -> None:
        """Put everything right."""
        with self._lock:
            self._faults.clear()

    def remove(self, fault: Fault) -> None:
        """Put one fault right."""
        with self._lock:
            if fault in self._faults:
                self._faults.remove(fault)

    def _add(self, kind: _Kind, verbs: Sequence[str], calls: int | None, seconds: float = 0.0) -> Fault:
        unknown = [verb for verb in verbs if not callable(getattr(Store, verb, None))]
        assert not unknown, f"A store has no verb {unknown[0]!r}. Use a name from rota.stores.base.Store."
        fault = Fault(self, kind, frozenset(verbs), calls, seconds)
        with self._lock:
            self._faults.append(fault)
        return fault

    def _strikes(self, verb: str) -> tuple[float, bool]:
        """How long to wait before the call, and whether its reply is lost. Raises if the store is away."""
        with self._lock:
            self.calls[verb] = self.calls.get(verb, 0) + 1
            struck = [fault for fault in self._faults if fault.covers(verb)]
        if any(fault.kind is _Kind.DOWN for fault in struck):
            raise StoreUnavailable(f"The store is down on purpose (FaultyStore, {verb}). End the fault to go on.")
        seconds = sum(fault.seconds for fault in struck)
        return seconds, any(fault.kind is _Kind.TORN for fault in struck)

    async def _do(self, verb: str, call: Callable[[], Awaitable[T]]) -> T:
        seconds, torn = self._strikes(verb)
        if seconds:
            await asyncio.sleep(seconds)
        answer = await call()
        if torn:
            raise StoreUnavailable(f"The reply was lost on purpose (FaultyStore, {verb}). End the fault to go on.")
        return answer

    def _do_blocking(self, verb: str, call: Callable[[], T]) -> T:
        seconds, torn = self._strikes(verb)
        if seconds:
            time.sleep(seconds)
        answer = call()
        if torn:
            raise StoreUnavailable(f"The reply was lost on purpose (FaultyStore, {verb}). End the fault to go on.")
        return answer

    # --- the verbs ---

    async def open(self) -> None:
        await self._do("open", self.store.open)

    async def close(self) -> None:
        await self._do("close", self.store.close)

    async def now(self) -> Instant:
        return await self._do("now", self.store.now)

    async def put_types(self, types: Sequence[TaskType]) -> list[TypeRecord]:
        return await self._do("put_types", lambda: self.store.put_types(types))

    async def list_types(self) -> list[TypeRecord]:
        return await self._do("list_types", self.store.list_types)

    async def override_type(self, name: str, changes: Mapping[str, object]) -> TypeRecord:
        return await self._do("override_type", lambda: self.store.override_type(name, changes))

    async def note(self, name: str, value: str, *, replace: bool = False) -> str:
        return await self._do("note", lambda: self.store.note(name, value, replace=replace))

    async def noted(self, name: str) -> str | None:
        return await self._do("noted", lambda: self.store.noted(name))

    async def schedule(self, tasks: Sequence[NewTask], *, now: Instant | None = None) -> list[Scheduled]:
        return await self._do("schedule", lambda: self.store.schedule(tasks, now=now))

    async def touch(self, activities: Sequence[Activity], *, now: Instant | None = None) -> list[Touched]:
        return await self._do("touch", lambda: self.store.touch(activities, now=now))

    async def update(self, changes: Sequence[Change], *, now: Instant | None = None) -> list[Reply]:
        return await self._do("update", lambda: self.store.update(changes, now=now))

    async def claim(self, request: ClaimRequest, *, now: Instant | None = None) -> Claimed:
        return await self._do("claim", lambda: self.store.claim(request, now=now))

    async def abandon(self, instance: str, claim_id: str, *, now: Instant | None = None) -> list[Task]:
        return await self._do("abandon", lambda: self.store.abandon(instance, claim_id, now=now))

    def renew(
        self, renewals: Sequence[Renewal], lease_ms: Millis, *, now: Instant | None = None, timeout: float | None = None
    ) -> list[Reply]:
        return self._do_blocking("renew", lambda: self.store.renew(renewals, lease_ms, now=now, timeout=timeout))

    async def settle(self, settlements: Sequence[Settlement], *, now: Instant | None = None) -> list[Reply]:
        return await self._do("settle", lambda: self.store.settle(settlements, now=now))

    async def settle_runs(
        self, settlements: Sequence[Settlement], *, now: Instant | None = None
    ) -> list[Settled | Exception]:
        return await self._do("settle", lambda: self.store.settle_runs(settlements, now=now))

    async def apply(
        self, transition: Transition, identities: Sequence[Identity], *, now: Instant | None = None
    ) -> list[Reply]:
        return await self._do(transition.value, lambda: self.store.apply(transition, identities, now=now))

    async def tick(self, beat: Beat, *, now: Instant | None = None) -> Tick:
        return await self._do("tick", lambda: self.store.tick(beat, now=now))

    def tick_blocking(self, beat: Beat, *, now: Instant | None = None, timeout: float | None = None) -> Tick:
        return self._do_blocking("tick", lambda: self.store.tick_blocking(beat, now=now, timeout=timeout))

    async def prune(self, run_ttl_ms: Millis, limit: int = 1_000, *, now: Instant | None = None) -> Purged:
        return await self._do("prune", lambda: self.store.prune(run_ttl_ms, limit, now=now))

    async def pump(self, limit: int = 200, *, now: Instant | None = None) -> int:
        return await self._do("pump", lambda: self.store.pump(limit, now=now))

    async def wait(self, timeout_ms: Millis) -> bool:
        return await self._do("wait", lambda: self.store.wait(timeout_ms))

    async def take(
        self, bucket: str, amount: int, *, rate: float, burst: int, owe: bool = False, now: Instant | None = None
    ) -> Taken:
        return await self._do("take", lambda: self.store.take(bucket, amount, rate=rate, burst=burst, owe=owe, now=now))

    async def leave(self, instance: str) -> None:
        await self._do("leave", lambda: self.store.leave(instance))

    async def get(self, identities: Sequence[Identity]) -> list[Task | None]:
        return await self._do("get", lambda: self.store.get(identities))

    async def find(self, query: TaskQuery) -> Page[Task]:
        return await self._do("find", lambda: self.store.find(query))

    async def runs(self, query: RunQuery) -> Page[RunRecord]:
        return await self._do("runs", lambda: self.store.runs(query))

    async def counts(self) -> dict[str, Counts]:
        return await self._do("counts", self.store.counts)

    async def instances(self) -> list[Instance]:
        return await self._do("instances", self.store.instances)

    async def next_due_by_type(self) -> dict[str, Instant]:
        return await self._do("next_due_by_type", self.store.next_due_by_type)

    async def queue_position(self, identity: Identity, *, now: Instant | None = None) -> QueuePosition:
        return await self._do("queue_position", lambda: self.store.queue_position(identity, now=now))

    async def keep_details(self, left: Sequence[RunLeft], *, now: Instant | None = None) -> list[Answer]:
        return await self._do("keep_details", lambda: self.store.keep_details(left, now=now))

    async def details(self, runs: Sequence[RunRef]) -> list[str | None]:
        return await self._do("details", lambda: self.store.details(runs))

    async def count_failures(self, reports: Sequence[FailureReport], *, now: Instant | None = None) -> None:
        await self._do("count_failures", lambda: self.store.count_failures(reports, now=now))

    async def failures(self, task_type: str | None = None, failure_id: str | None = None) -> list[Failures]:
        return await self._do("failures", lambda: self.store.failures(task_type, failure_id))

    async def mute_failure(
        self, task_type: str, failure_id: str, until: Instant | None, by: str, *, now: Instant | None = None
    ) -> FailureGroup | None:
        return await self._do(
            "mute_failure", lambda: self.store.mute_failure(task_type, failure_id, until, by, now=now)
        )

    async def record(self, slices: Sequence[Slice], *, now: Instant | None = None) -> None:
        await self._do("record", lambda: self.store.record(slices, now=now))

    async def history(
        self,
        resolution: Resolution,
        since_at: Instant,
        until_at: Instant | None = None,
        *,
        task_type: str | None = None,
    ) -> list[Slice]:
        return await self._do(
            "history", lambda: self.store.history(resolution, since_at, until_at, task_type=task_type)
        )

    async def erase_user(self, user_id: str, *, limit: int = 500, now: Instant | None = None) -> Erasure:
        return await self._do("erase_user", lambda: self.store.erase_user(user_id, limit=limit, now=now))

    async def erasures(self, *, with_done: bool = False) -> list[Erasure]:
        return await self._do("erasures", lambda: self.store.erasures(with_done=with_done))

    async def export_user(
        self, user_id: str, cursor: str | None = None, limit: int = DEFAULT_PAGE
    ) -> Page[Snapshot | RunRecord]:
        return await self._do("export_user", lambda: self.store.export_user(user_id, cursor, limit))

    async def reset_breaker(self, identities: Sequence[Identity]) -> None:
        await self._do("reset_breaker", lambda: self.store.reset_breaker(identities))

    async def export(self, cursor: str | None = None, limit: int = DEFAULT_PAGE) -> Page[Snapshot]:
        return await self._do("export", lambda: self.store.export(cursor, limit))

    async def restore(self, snapshots: Sequence[Snapshot], *, now: Instant | None = None) -> list[Restored]:
        return await self._do("restore", lambda: self.store.restore(snapshots, now=now))
