"""A store over transactions that see everything: each verb of the contract in one of them.

`memory` and `sql` say how to run a function in a transaction, how to read, and how to wait; everything else is here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar, TypeVarTuple

from rota.clock import Instant, Millis
from rota.core.failure import FailureGroup, FailureReport
from rota.core.history import Slice
from rota.core.outcome import Reply
from rota.core.task import Identity, Renewal, Task
from rota.core.task_type import TaskType
from rota.group_commit import write_together
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
    Snapshot,
    Taken,
    Tick,
    TypeRecord,
)
from rota.stores.grouped import GroupedStore, Verb
from rota.stores.transaction import WholeTransaction
from rota.stores.work import Work, unit_of_work

__all__ = ["TransactionalStore"]

T = TypeVar("T")
Args = TypeVarTuple("Args")
Item = TypeVar("Item")
Result = TypeVar("Result")


class TransactionalStore(GroupedStore):
    """Every verb as one transaction, for stores that can run Python inside one."""

    # --- what a store brings ---

    @abstractmethod
    async def _transact(self, function: Callable[[WholeTransaction], T]) -> T:
        """Run a function in one transaction. A conflict with others is retried; being away is `StoreUnavailable`."""

    @abstractmethod
    def _transact_blocking(self, function: Callable[[WholeTransaction], T], timeout: float) -> T:
        """The same, from any thread."""

    # --- units of work ---

    def _wake(self) -> None:
        """Something is due soon: whoever waits in this process looks."""
        self._poked.set()

    async def _work(self, now: Instant | None, verb: Callable[[Work, *Args], T], *args: *Args) -> T:
        """One unit of work; whoever waits is woken if it made something due soon."""
        answer, is_soon = await self._transact(partial(unit_of_work, now, verb, args))
        if is_soon:
            self._wake()
        return answer

    async def _work_on_all(
        self, now: Instant | None, verb: Callable[[Work, WholeTransaction, *Args], T], *args: *Args
    ) -> T:
        """One unit of work that sees every type."""
        answer, is_soon = await self._transact(lambda whole: unit_of_work(now, verb, (whole, *args), whole))
        if is_soon:
            self._wake()
        return answer

    async def _write(
        self, verb: Verb[Item, Result], items: list[Item], now: Instant | None = None
    ) -> list[Result | Exception]:
        return await write_together(partial(self._work, now, verb), items)

    # --- types ---

    async def put_types(self, types: Sequence[TaskType]) -> list[TypeRecord]:
        for task_type in types:
            task_type.validate()
        known = {record.task_type.name: record for record in await self.list_types()}
        if all(verbs.is_put(known.get(task_type.name), task_type) for task_type in types):
            # As at most starts. Nobody has to wait for one who writes, and may be frozen.
            return [known[task_type.name] for task_type in types]
        records = await self._work(None, verbs.put_types, types)
        self._known_types.update(record.task_type.name for record in records)
        return records

    async def list_types(self) -> list[TypeRecord]:
        records = await self._transact(lambda transaction: list(transaction.types().values()))
        self._known_types.update(record.task_type.name for record in records)
        return sorted(records, key=lambda record: record.task_type.name)

    async def override_type(self, name: str, changes: Mapping[str, object]) -> TypeRecord:
        checked = limits.check_overrides(changes)
        await self._check_types([name])
        return await self._work(None, verbs.override_type, name, checked)

    # --- what all instances must agree on ---

    async def note(self, name: str, value: str, *, replace: bool = False) -> str:
        limits.check_note(name, value)
        known = await self.noted(name)
        if known is not None and (known == value or not replace):
            return known  # as at most starts: nobody has to wait for one who writes
        return await self._transact(lambda transaction: verbs.note(transaction, name, value, replace=replace))

    async def noted(self, name: str) -> str | None:
        return await self._transact(lambda transaction: transaction.noted(name))

    # --- running it ---

    async def claim(self, request: ClaimRequest, *, now: Instant | None = None) -> Claimed:
        return await self._work(now, verbs.claim, request)

    async def abandon(self, instance: str, claim_id: str, *, now: Instant | None = None) -> list[Task]:
        return await self._work(now, verbs.abandon, instance, claim_id)

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

        if not renewals:
            return []
        seconds = self.call_timeout if timeout is None else timeout
        replies, _ = self._transact_blocking(partial(unit_of_work, now, verbs.renew, (renewals, lease_ms)), seconds)
        return replies

    async def reset_breaker(self, identities: Sequence[Identity]) -> None:
        await self._work(None, verbs.reset_breaker, identities)

    # --- duties ---

    async def now(self) -> Instant:
        return await self._transact(lambda transaction: transaction.now())

    async def tick(self, beat: Beat, *, now: Instant | None = None) -> Tick:
        return await self._work_on_all(now, verbs.tick, beat)

    def tick_blocking(self, beat: Beat, *, now: Instant | None = None, timeout: float | None = None) -> Tick:
        # Whoever waits here is not woken: the answer says what is due.
        seconds = self.call_timeout if timeout is None else timeout
        tick, _ = self._transact_blocking(lambda whole: unit_of_work(now, verbs.tick, (whole, beat), whole), seconds)
        return tick

    async def prune(self, run_ttl_ms: Millis, limit: int = 1_000, *, now: Instant | None = None) -> Purged:
        purged = await self._work_on_all(now, verbs.prune, run_ttl_ms, limit)
        return purged._replace(handed_on=await self.pump(limit, now=now))

    async def pump(self, limit: int = 200, *, now: Instant | None = None) -> int:
        return await self._work_on_all(now, verbs.pump, limit)

    async def take(
        self, bucket: str, amount: int, *, rate: float, burst: int, owe: bool = False, now: Instant | None = None
    ) -> Taken:
        limits.check_take(bucket, amount, rate, burst, owe=owe)
        return await self._work(now, verbs.take, bucket, amount, rate, burst, owe)

    async def leave(self, instance: str) -> None:
        await self._transact(lambda transaction: transaction.leave(instance))

    # --- what ran, over time ---

    async def record(self, slices: Sequence[Slice], *, now: Instant | None = None) -> None:
        if slices:
            await self._work(now, verbs.record, slices)

    # --- failures, by groups ---

    async def count_failures(self, reports: Sequence[FailureReport], *, now: Instant | None = None) -> None:
        for report in reports:
            limits.check_failure(report)
        if reports:
            await self._work(now, verbs.count_failures, reports)

    async def mute_failure(
        self, task_type: str, failure_id: str, until: Instant | None, by: str, *, now: Instant | None = None
    ) -> FailureGroup | None:
        return await self._work(now, verbs.mute_failure, task_type, failure_id, until, by)

    # --- one user's data ---

    async def erase_user(self, user_id: str, *, limit: int = 500, now: Instant | None = None) -> Erasure:
        limits.check_user(user_id)
        limits.check_page(limit)
        return await self._work_on_all(now, users.erase_user, user_id, limit)

    async def _known_of(self, user_id: str, after: Identity | None, limit: int) -> Page[Snapshot]:
        return await self._work_on_all(
            None, lambda work, whole: verbs.export(work, whole.known_of(user_id, after=after, limit=limit + 1), limit)
        )

    # --- moving to another store ---

    async def export(self, cursor: str | None = None, limit: int = DEFAULT_PAGE) -> Page[Snapshot]:
        limits.check_page(limit)
        after = None if cursor is None else limits.check_cursor(cursor)
        return await self._work_on_all(
            None, lambda work, whole: verbs.export(work, whole.known(after, limit + 1), limit)
        )

    async def restore(self, snapshots: Sequence[Snapshot], *, now: Instant | None = None) -> list[Restored]:
        for snapshot in snapshots:
            limits.check_identity(snapshot.identity)
        return await self._work(now, verbs.restore, snapshots) if snapshots else []
