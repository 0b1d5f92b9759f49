"""A store over transactions: the contract's verbs, grouped, validated, and run in one transaction each.

`memory` and `sql` say how to run a function in a transaction, how to read, and how to wait; everything else is here.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from rota.call_timeout import seconds_of
from rota.clock import Instant, Millis
from rota.core.history import Slice
from rota.core.outcome import Reply, Scheduled, Touched
from rota.core.task import Activity, Change, Identity, NewTask, Renewal, RunRecord, Settlement, Task, Transition
from rota.core.task_type import TaskType
from rota.errors import InvalidInput, StoreUnavailable, UnknownTaskType
from rota.group_commit import GroupCommit
from rota.stores import limits, users, verbs
from rota.stores.base import (
    DEFAULT_PAGE,
    Beat,
    Claimed,
    ClaimRequest,
    Erasure,
    Page,
    Purged,
    Restored,
    RunQuery,
    Snapshot,
    Store,
    Taken,
    Tick,
    TypeRecord,
)
from rota.stores.transaction import Transaction
from rota.stores.work import Work

__all__ = ["TransactionalStore", "unit_of_work"]

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")
Grouped = TypeVar("Grouped", bound=NewTask | Activity | Change | Settlement | tuple[Transition, Identity])
"""What callers bring to a group."""

_IDENTITIES, _RUNS = "known", "runs"
"""The two parts of a user's export, as its cursor names them."""

SOON_MS: Millis = 2_000
"""Only what is due this soon wakes others: anything later is seen by their next tick in time."""


def unit_of_work(verb: Callable[[Work], T], now: Instant | None) -> Callable[[Transaction], tuple[T, bool]]:
    """The verb as one step: its answer, and whether it made something due soon; the other instances are told."""

    def run(transaction: Transaction) -> tuple[T, bool]:
        work = Work(transaction, now)
        answer = verb(work)
        work.finish()
        is_soon = work.earliest_due_at is not None and work.earliest_due_at <= work.now + SOON_MS
        if is_soon:
            transaction.poke()
        return answer, is_soon

    return run


class TransactionalStore(Store):
    """Every verb as one transaction, for stores that can run Python inside one.

    A call that takes longer than `call_timeout` seconds is given up; what it did is then unknown.
    """

    def __init__(self, *, in_flight: int, call_timeout: float | None = None) -> None:
        self.call_timeout = seconds_of(call_timeout)
        self._known_types: set[str] = set()
        self._poked = asyncio.Event()
        self._schedules = GroupCommit(
            self._group(verbs.schedule), limits.size_of, in_flight=in_flight, patience=self.call_timeout
        )
        self._touches = self._group_commit(verbs.touch, in_flight)
        self._updates = self._group_commit(verbs.update, in_flight)
        self._settles = self._group_commit(verbs.settle, in_flight)
        self._applies = self._group_commit(verbs.apply, in_flight)

    # --- what a store brings ---

    @abstractmethod
    async def _transact(self, function: Callable[[Transaction], T]) -> T:
        """Run a function in one transaction. A conflict with others is retried; being away is `StoreUnavailable`."""

    @abstractmethod
    def _transact_blocking(self, function: Callable[[Transaction], T], timeout: float) -> T:
        """The same, from any thread."""

    # --- grouping ---

    def _group_commit(
        self, verb: Callable[[Work, list[Grouped]], list[Result]], in_flight: int
    ) -> GroupCommit[Grouped, Result]:
        return GroupCommit(self._group(verb), limits.size_of, in_flight=in_flight, patience=self.call_timeout)

    def _group(
        self, verb: Callable[[Work, list[Item]], list[Result]]
    ) -> Callable[[list[Item]], Awaitable[list[Result | Exception]]]:
        async def run(items: list[Item]) -> list[Result | Exception]:
            try:
                return list(await self._work(lambda work: verb(work, items)))
            except StoreUnavailable:
                raise
            except Exception as error:
                if len(items) == 1:
                    return [error]
            # Something in this group cannot be written. Each by itself: the bad one fails alone.
            return [(await run([item]))[0] for item in items]

        return run

    async def _work(self, verb: Callable[[Work], T], now: Instant | None = None) -> T:
        """One unit of work in one transaction; whoever waits is woken if it made something due soon."""
        answer, is_soon = await self._transact(unit_of_work(verb, now))
        if is_soon:
            self._poked.set()
        return answer

    async def _submit(
        self,
        group: GroupCommit[Item, Result],
        verb: Callable[[Work, list[Item]], list[Result]],
        items: Sequence[Item],
        now: Instant | None,
    ) -> list[Result]:
        if not items:
            return []
        if now is not None:
            # A test's own time cannot share a transaction with anybody else's.
            return await self._work(lambda work: verb(work, list(items)), now)
        return await group.submit(items)

    async def _check_types(self, names: Iterable[str]) -> None:
        unknown = set(names) - self._known_types
        if not unknown:
            return
        await self.list_types()
        for name in sorted(unknown - self._known_types):
            known = ", ".join(sorted(self._known_types)) or "none yet"
            raise UnknownTaskType(f"The store knows no task type {name!r} (it knows: {known}). Register it first.")

    async def _drain(self) -> None:
        for group in (self._schedules, self._touches, self._updates, self._settles, self._applies):
            await group.drain()

    # --- types ---

    async def put_types(self, types: Sequence[TaskType]) -> list[TypeRecord]:
        for task_type in types:
            task_type.validate()
        known = {record.task_type.name: record for record in await self.list_types()}
        if all(verbs.is_put(known.get(task_type.name), task_type) for task_type in types):
            # As at most starts. Nobody has to wait for one who writes, and may be frozen.
            return [known[task_type.name] for task_type in types]
        records = await self._work(lambda work: verbs.put_types(work, types))
        self._known_types.update(record.task_type.name for record in records)
        return records

    async def list_types(self) -> list[TypeRecord]:
        records = await self._transact(lambda transaction: list(transaction.types().values()))
        self._known_types.update(record.task_type.name for record in records)
        return sorted(records, key=lambda record: record.task_type.name)

    async def override_type(self, name: str, changes: Mapping[str, object]) -> TypeRecord:
        checked = limits.check_overrides(changes)
        await self._check_types([name])
        return await self._work(lambda work: verbs.override_type(work, name, checked))

    # --- what all instances must agree on ---

    async def note(self, name: str, value: str, *, replace: bool = False) -> str:
        limits.check_note(name, value)
        known = await self.noted(name)
        if known is not None and (known == value or not replace):
            return known  # as at most starts: nobody has to wait for one who writes
        return await self._transact(lambda transaction: verbs.note(transaction, name, value, replace=replace))

    async def noted(self, name: str) -> str | None:
        return await self._transact(lambda transaction: transaction.noted(name))

    # --- making work ---

    async def schedule(self, tasks: Sequence[NewTask], *, now: Instant | None = None) -> list[Scheduled]:
        for new in tasks:
            limits.check_new(new)
        await self._check_types(new.task_type for new in tasks)
        return await self._submit(self._schedules, verbs.schedule, tasks, now)

    async def touch(self, activities: Sequence[Activity], *, now: Instant | None = None) -> list[Touched]:
        for activity in activities:
            limits.check_activity(activity)
        await self._check_types(activity.task_type for activity in activities)
        return await self._submit(self._touches, verbs.touch, activities, now)

    async def update(self, changes: Sequence[Change], *, now: Instant | None = None) -> list[Reply]:
        for change in changes:
            limits.check_change(change)
        return await self._submit(self._updates, verbs.update, changes, now)

    # --- running it ---

    async def claim(self, request: ClaimRequest, *, now: Instant | None = None) -> Claimed:
        return await self._work(lambda work: verbs.claim(work, request), now)

    async def abandon(self, instance: str, claim_id: str, *, now: Instant | None = None) -> list[Task]:
        return await self._work(lambda work: verbs.abandon(work, instance, claim_id), now)

    def renew(
        self,
        renewals: Sequence[Renewal],
        lease_ms: Millis,
        *,
        now: Instant | None = None,
        timeout: float | None = None,
    ) -> list[Reply]:
        for renewal in renewals:
            limits.check_renewal(renewal)

        def run(transaction: Transaction) -> list[Reply]:
            work = Work(transaction, now)
            replies = verbs.renew(work, renewals, lease_ms)
            work.finish()
            return replies

        return self._transact_blocking(run, self.call_timeout if timeout is None else timeout) if renewals else []

    async def settle(self, settlements: Sequence[Settlement], *, now: Instant | None = None) -> list[Reply]:
        for settlement in settlements:
            limits.check_settlement(settlement)
        kept = [limits.trimmed(settlement) for settlement in settlements]
        return await self._submit(self._settles, verbs.settle, kept, now)

    async def apply(
        self, transition: Transition, identities: Sequence[Identity], *, now: Instant | None = None
    ) -> list[Reply]:
        for identity in identities:
            limits.check_identity(identity)
        return await self._submit(self._applies, verbs.apply, [(transition, identity) for identity in identities], now)

    async def reset_breaker(self, identities: Sequence[Identity]) -> None:
        await self._work(lambda work: verbs.reset_breaker(work, identities))

    # --- duties ---

    async def now(self) -> Instant:
        return await self._transact(lambda transaction: transaction.now())

    async def tick(self, beat: Beat, *, now: Instant | None = None) -> Tick:
        return await self._work(lambda work: verbs.tick(work, beat), now)

    def tick_blocking(self, beat: Beat, *, now: Instant | None = None, timeout: float | None = None) -> Tick:
        # Whoever waits here is not woken: the answer says what is due.
        seconds = self.call_timeout if timeout is None else timeout
        return self._transact_blocking(unit_of_work(lambda work: verbs.tick(work, beat), now), seconds)[0]

    async def prune(self, run_ttl_ms: Millis, limit: int = 1_000, *, now: Instant | None = None) -> Purged:
        purged = await self._work(lambda work: verbs.prune(work, run_ttl_ms, limit), now)
        return purged._replace(handed_on=await self.pump(limit, now=now))

    async def pump(self, limit: int = 200, *, now: Instant | None = None) -> int:
        return await self._work(lambda work: verbs.pump(work, limit), now)

    async def take(self, bucket: str, amount: int, *, rate: float, burst: int, now: Instant | None = None) -> Taken:
        limits.check_take(bucket, amount, rate, burst)
        return await self._work(lambda work: verbs.take(work, bucket, amount, rate, burst), now)

    async def leave(self, instance: str) -> None:
        await self._transact(lambda transaction: transaction.leave(instance))

    # --- what ran, over time ---

    async def record(self, slices: Sequence[Slice], *, now: Instant | None = None) -> None:
        if slices:
            await self._work(lambda work: verbs.record(work, slices), now)

    # --- one user's data ---

    async def erase_user(self, user_id: str, *, limit: int = 500, now: Instant | None = None) -> Erasure:
        limits.check_user(user_id)
        limits.check_page(limit)
        return await self._work(lambda work: users.erase_user(work, user_id, limit), now)

    async def export_user(
        self, user_id: str, cursor: str | None = None, limit: int = DEFAULT_PAGE
    ) -> Page[Snapshot | RunRecord]:
        limits.check_user(user_id)
        limits.check_page(limit)
        part, _, place = (cursor or _IDENTITIES).partition(" ")
        if part not in (_IDENTITIES, _RUNS):
            raise InvalidInput(f"The cursor {cursor!r} is none of ours. Take it from the last page, unchanged.")
        if part == _RUNS:
            runs = await self.runs(RunQuery(user_id=user_id, cursor=place or None, limit=limit))
            return Page([*runs.items], None if runs.cursor is None else f"{_RUNS} {runs.cursor}")
        known = await self._known_of(user_id, limits.check_cursor(place) if place else None, limit)
        return Page([*known.items], _RUNS if known.cursor is None else f"{_IDENTITIES} {known.cursor}")

    async def _known_of(self, user_id: str, after: Identity | None, limit: int) -> Page[Snapshot]:
        """A page of what is known of a user's identities."""
        return await self._work(lambda work: verbs.export_user(work, user_id, after, limit))

    # --- moving to another store ---

    async def export(self, cursor: str | None = None, limit: int = DEFAULT_PAGE) -> Page[Snapshot]:
        limits.check_page(limit)
        after = None if cursor is None else limits.check_cursor(cursor)
        return await self._work(lambda work: verbs.export(work, after, limit))

    async def restore(self, snapshots: Sequence[Snapshot], *, now: Instant | None = None) -> list[Restored]:
        for snapshot in snapshots:
            limits.check_identity(snapshot.identity)
        return await self._work(lambda work: verbs.restore(work, snapshots), now) if snapshots else []
