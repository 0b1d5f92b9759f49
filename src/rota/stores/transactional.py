"""A store over transactions that see everything: each verb of the contract in one of them.

`memory` and `sql` say how to run a function in a transaction, how to read, and how to wait; everything else is here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from rota.clock import Instant, Millis
from rota.core.history import Slice
from rota.core.outcome import Reply
from rota.core.task import Identity, Renewal, Task
from rota.core.task_type import TaskType
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
from rota.stores.grouped import GroupedStore, Verb, write_together
from rota.stores.transaction import WholeTransaction
from rota.stores.work import Work, unit_of_work

__all__ = ["TransactionalStore"]

T = TypeVar("T")
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

    async def _work(self, verb: Callable[[Work], T], now: Instant | None = None) -> T:
        """One unit of work on some identities."""
        return await self._work_on_all(lambda work, _: verb(work), now)

    async def _work_on_all(self, verb: Callable[[Work, WholeTransaction], T], now: Instant | None = None) -> T:
        """One unit of work that sees every type; whoever waits is woken if it made something due soon."""
        answer, is_soon = await self._transact(lambda whole: unit_of_work(whole, lambda work: verb(work, whole), now))
        if is_soon:
            self._poked.set()
        return answer

    async def _write(
        self, verb: Verb[Item, Result], items: list[Item], now: Instant | None = None
    ) -> list[Result | Exception]:
        return await write_together(lambda part: self._work(lambda work: verb(work, part), now), items)

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

        if not renewals:
            return []
        seconds = self.call_timeout if timeout is None else timeout
        return self._transact_blocking(
            lambda whole: unit_of_work(whole, lambda work: verbs.renew(work, renewals, lease_ms), now)[0], seconds
        )

    async def reset_breaker(self, identities: Sequence[Identity]) -> None:
        await self._work(lambda work: verbs.reset_breaker(work, identities))

    # --- duties ---

    async def now(self) -> Instant:
        return await self._transact(lambda transaction: transaction.now())

    async def tick(self, beat: Beat, *, now: Instant | None = None) -> Tick:
        return await self._work_on_all(lambda work, whole: verbs.tick(work, whole, beat), now)

    def tick_blocking(self, beat: Beat, *, now: Instant | None = None, timeout: float | None = None) -> Tick:
        # Whoever waits here is not woken: the answer says what is due.
        seconds = self.call_timeout if timeout is None else timeout
        return self._transact_blocking(
            lambda whole: unit_of_work(whole, lambda work: verbs.tick(work, whole, beat), now)[0], seconds
        )

    async def prune(self, run_ttl_ms: Millis, limit: int = 1_000, *, now: Instant | None = None) -> Purged:
        purged = await self._work_on_all(lambda work, whole: verbs.prune(work, whole, run_ttl_ms, limit), now)
        return purged._replace(handed_on=await self.pump(limit, now=now))

    async def pump(self, limit: int = 200, *, now: Instant | None = None) -> int:
        return await self._work_on_all(lambda work, whole: verbs.pump(work, whole, limit), now)

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
        return await self._work_on_all(lambda work, whole: users.erase_user(work, whole, user_id, limit), now)

    async def _known_of(self, user_id: str, after: Identity | None, limit: int) -> Page[Snapshot]:
        return await self._work_on_all(
            lambda work, whole: verbs.export(work, whole.known_of(user_id, after=after, limit=limit + 1), limit)
        )

    # --- moving to another store ---

    async def export(self, cursor: str | None = None, limit: int = DEFAULT_PAGE) -> Page[Snapshot]:
        limits.check_page(limit)
        after = None if cursor is None else limits.check_cursor(cursor)
        return await self._work_on_all(lambda work, whole: verbs.export(work, whole.known(after, limit + 1), limit))

    async def restore(self, snapshots: Sequence[Snapshot], *, now: Instant | None = None) -> list[Restored]:
        for snapshot in snapshots:
            limits.check_identity(snapshot.identity)
        return await self._work(lambda work: verbs.restore(work, snapshots), now) if snapshots else []
