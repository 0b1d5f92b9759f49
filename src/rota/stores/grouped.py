"""What every store does alike: verbs on identities are checked, gathered into groups, and a group is written at once.

A store says how a group is written (`_write`), and what it brings beside: claims, duties, queries. `memory` and `sql`
write a group in one transaction (`transactional.py`), `redis` in one step for each type.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from rota.call_timeout import seconds_of
from rota.clock import Instant, Millis
from rota.core.outcome import Answer, Reply, Scheduled, Settled, Touched
from rota.core.task import Activity, Change, Identity, NewTask, RunRecord, Settlement, Transition
from rota.errors import InvalidInput
from rota.group_commit import MAX_GROUP, GroupCommit
from rota.stores import limits, verbs
from rota.stores.base import DEFAULT_PAGE, Page, RunLeft, RunQuery, Snapshot, Store
from rota.stores.queries import unknown_type
from rota.stores.work import Work

__all__ = ["GroupedStore", "Verb"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Verb = Callable[[Work, list[Item]], list[Result]]
"""A verb of `verbs.py` that takes a list: one answer for each item."""

_GROUPED: tuple[Verb[Any, Any], ...] = (
    verbs.schedule,
    verbs.touch,
    verbs.update,
    verbs.settle,
    verbs.settle_runs,
    verbs.keep_details,
    verbs.apply,
)
_IDENTITIES, _RUNS = "known", "runs"
"""The two parts of a user's export, as its cursor names them."""


class GroupedStore(Store):
    """The verbs that thousands of callers use at once.

    A call that takes longer than `call_timeout` seconds is given up; what it did is then unknown.
    """

    def __init__(self, *, in_flight: int, group_size: int = MAX_GROUP, call_timeout: float | None = None) -> None:
        self.call_timeout = seconds_of(call_timeout)
        self.group_size = group_size
        self._known_types: set[str] = set()
        self._poked = asyncio.Event()
        self._groups: Mapping[Verb[Any, Any], GroupCommit[Any, Any]] = {
            verb: GroupCommit(
                partial(self._write, verb),
                limits.size_of,
                in_flight=in_flight,
                most=group_size,
                patience=self.call_timeout,
            )
            for verb in _GROUPED
        }

    @abstractmethod
    async def _write(
        self, verb: Verb[Item, Result], items: list[Item], now: Instant | None = None
    ) -> list[Result | Exception]:
        """A group of items, each written whole or not at all; one that cannot be written is answered by its error."""

    async def _submit(self, verb: Verb[Item, Result], items: Sequence[Item], now: Instant | None) -> list[Result]:
        if not items:
            return []
        if now is None:
            return await self._groups[verb].submit(items)
        # A test's own time cannot share a group with anybody else's.
        answers: list[Result] = []
        for answer in await self._write(verb, list(items), now):
            if isinstance(answer, Exception):
                raise answer
            answers.append(answer)
        return answers

    async def _drain(self) -> None:
        for group in self._groups.values():
            await group.drain()

    async def _check_types(self, names: Iterable[str]) -> None:
        unknown = set(names) - self._known_types
        if not unknown:
            return
        await self.list_types()
        for name in sorted(unknown - self._known_types):
            raise unknown_type(name, self._known_types)

    # --- making work ---

    async def schedule(self, tasks: Sequence[NewTask], *, now: Instant | None = None) -> list[Scheduled]:
        for new in tasks:
            limits.check_new(new)
        await self._check_types(new.task_type for new in tasks)
        return await self._submit(verbs.schedule, tasks, now)

    async def touch(self, activities: Sequence[Activity], *, now: Instant | None = None) -> list[Touched]:
        for activity in activities:
            limits.check_activity(activity)
        await self._check_types(activity.task_type for activity in activities)
        return await self._submit(verbs.touch, activities, now)

    async def update(self, changes: Sequence[Change], *, now: Instant | None = None) -> list[Reply]:
        for change in changes:
            limits.check_change(change)
        return await self._submit(verbs.update, changes, now)

    # --- running it, and what people ask for ---

    async def settle(self, settlements: Sequence[Settlement], *, now: Instant | None = None) -> list[Reply]:
        return await self._submit(verbs.settle, [limits.check_settlement(each) for each in settlements], now)

    async def settle_runs(
        self, settlements: Sequence[Settlement], *, now: Instant | None = None
    ) -> list[Settled | Exception]:
        if now is not None:
            return await self._write(verbs.settle_runs, list(settlements), now)
        return await self._groups[verbs.settle_runs].submit_each(settlements)

    async def keep_details(self, left: Sequence[RunLeft], *, now: Instant | None = None) -> list[Answer]:
        for each in left:
            limits.check_left(each)
        return await self._submit(verbs.keep_details, left, now)

    async def apply(
        self, transition: Transition, identities: Sequence[Identity], *, now: Instant | None = None
    ) -> list[Reply]:
        for identity in identities:
            limits.check_identity(identity)
        return await self._submit(verbs.apply, [verbs.Request(*identity, transition) for identity in identities], now)

    # --- waiting ---

    async def wait(self, timeout_ms: Millis) -> bool:
        return await self._wait_for_poke(timeout_ms / 1_000)

    async def _wait_for_poke(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._poked.wait()
        except TimeoutError:
            return False
        self._poked.clear()
        return True

    # --- one user's data ---

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

    @abstractmethod
    async def _known_of(self, user_id: str, after: Identity | None, limit: int) -> Page[Snapshot]:
        """A page of what is known of a user's identities."""
