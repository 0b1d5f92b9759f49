"""`app.tasks`: look at tasks and change what becomes of them, as an operator does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, TypedDict, Unpack

from msgspec.structs import replace

from rota.app.results import TaskDetails, Waiting, answered
from rota.app.time_range import time_range_in
from rota.app.views import alive, task_query
from rota.clock import MINUTE, Millis
from rota.core.history import Resolution
from rota.core.outcome import Answer
from rota.core.task import Identity, TaskStatus, Transition
from rota.core.waiting import WaitFacts, explain
from rota.errors import InvalidInput
from rota.keys import GLOBAL_KEY, IUserKeyBuilder, check_task_type
from rota.stores.base import DEFAULT_PAGE, MAX_AHEAD, MAX_PAGE, Page, QueuePosition, Store, TaskSort

__all__ = ["Ready", "Tasks", "UserIds"]

Ready = Callable[[], Awaitable[Store]]
"""Gives the store of a connected app, or says that it is not connected."""

_LATELY_MS: Final[Millis] = 10 * MINUTE
"""How far back the runs lie from which an estimate is made."""


class UserIds(TypedDict, total=False):
    """Whose task is meant."""

    user_id: str | None
    device_id: str | None
    agent_id: str | None


class Tasks:
    """Every task, by its type and key.

    A user's task is named by `user_id`, `device_id` and `agent_id`, any other by `key`. Without either, it is the one
    task of a periodic or cron type.
    """

    def __init__(self, ready: Ready, keys: IUserKeyBuilder, timezone: str) -> None:
        self._ready = ready
        self._keys = keys
        self._timezone = timezone

    async def get(self, task_type: str, key: str | None = None, **user: Unpack[UserIds]) -> TaskDetails | None:
        """The task, or None if there is none."""
        identity = self._identity(task_type, key, **user)
        store = await self._ready()
        (task,) = await store.get([identity])
        return None if task is None else TaskDetails.of(task)

    async def find(
        self,
        task_type: str | None = None,
        *,
        status: TaskStatus | str | None = None,
        user_id: str | None = None,
        owner: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        sort: TaskSort | str = TaskSort.KEY,
        limit: int = DEFAULT_PAGE,
        cursor: str | None = None,
    ) -> Page[TaskDetails]:
        """A page of tasks by type and key, or sorted otherwise; `cursor` is what the last page ended with.

        `since` and `until` bound when they changed last: an instant, or how long ago ("2h"). Another order than by key
        is that of so many tasks as the page says (`looked_at`; None: of all).
        """
        store = await self._ready()
        within = await time_range_in(store, self._timezone, since, until)
        query = task_query(
            type=task_type,
            status=status,
            user=user_id,
            owner=owner,
            within=within,
            sort=sort,
            limit=limit,
            cursor=cursor,
        )
        page = await store.find(query)
        return Page([TaskDetails.of(task) for task in page.items], page.cursor, page.looked_at)

    async def explain(self, task_type: str, key: str | None = None, **user: Unpack[UserIds]) -> Waiting:
        """Why the task waits, its place in line and an estimate; also for one that is not there."""
        identity = self._identity(task_type, key, **user)
        store = await self._ready()
        position = await store.queue_position(identity)
        facts = await _facts(store, identity, position)
        return Waiting.of(position.task, explain(facts))

    async def pause(self, task_type: str, key: str | None = None, **user: Unpack[UserIds]) -> TaskDetails:
        """Hold it back; a running one is held back after its run."""
        return await self._apply(Transition.PAUSE, self._identity(task_type, key, **user))

    async def resume(self, task_type: str, key: str | None = None, **user: Unpack[UserIds]) -> TaskDetails:
        """Let it go on; a series goes on with the first fire that lies ahead."""
        return await self._apply(Transition.RESUME, self._identity(task_type, key, **user))

    async def cancel(self, task_type: str, key: str | None = None, **user: Unpack[UserIds]) -> TaskDetails:
        """End it; the handler of a running one is cancelled within about a second."""
        return await self._apply(Transition.CANCEL, self._identity(task_type, key, **user))

    async def run_now(self, task_type: str, key: str | None = None, **user: Unpack[UserIds]) -> TaskDetails:
        """Make it due now. A series is not shifted by it."""
        return await self._apply(Transition.RUN_NOW, self._identity(task_type, key, **user))

    async def redrive(self, task_type: str, key: str | None = None, **user: Unpack[UserIds]) -> TaskDetails:
        """Give a failed task another chance, with fresh counts."""
        return await self._apply(Transition.REDRIVE, self._identity(task_type, key, **user))

    async def redrive_all(self, task_type: str | None = None, *, user_id: str | None = None) -> int:
        """Give every failed task another chance, or those of a type or a user; how many there were."""
        return await self._all_failed(Transition.REDRIVE, task_type, user_id)

    async def purge(self, task_type: str, key: str | None = None, **user: Unpack[UserIds]) -> None:
        """Remove a finished task now, before its retention ends."""
        identity = self._identity(task_type, key, **user)
        store = await self._ready()
        (reply,) = await store.purge([identity])
        answered(Transition.PURGE, identity, reply)

    async def purge_all(self, task_type: str | None = None, *, user_id: str | None = None) -> int:
        """Remove every failed task, or those of a type or a user; how many there were."""
        return await self._all_failed(Transition.PURGE, task_type, user_id)

    async def reset(self, task_type: str, key: str | None = None, **user: Unpack[UserIds]) -> None:
        """Forget the failures in a row, so that activity is taken on again."""
        identity = self._identity(task_type, key, **user)
        store = await self._ready()
        await store.reset_breaker([identity])

    def _identity(
        self,
        task_type: str,
        key: str | None,
        user_id: str | None = None,
        device_id: str | None = None,
        agent_id: str | None = None,
    ) -> Identity:
        check_task_type(task_type)
        if user_id is None:
            if device_id is not None or agent_id is not None:
                raise InvalidInput(f"A {task_type!r} task was named by a device or an agent alone. Add the user_id.")
            return Identity(task_type, GLOBAL_KEY if key is None else key)
        if key is not None:
            raise InvalidInput(f"A {task_type!r} task was named by key and by user_id. Give one of them.")
        return Identity(task_type, self._keys.build_key(user_id, device_id, agent_id))

    async def _apply(self, transition: Transition, identity: Identity) -> TaskDetails:
        store = await self._ready()
        (reply,) = await store.apply(transition, [identity])
        task = answered(transition, identity, reply)
        assert task is not None, f"{identity} is gone after {transition}"
        return TaskDetails.of(task)

    async def _all_failed(self, transition: Transition, task_type: str | None, user_id: str | None) -> int:
        """Page by page; what fails again meanwhile lies behind the cursor and is left alone."""
        store = await self._ready()
        query = task_query(type=task_type, status=TaskStatus.FAILED, user=user_id, limit=MAX_PAGE)
        changed = 0
        while True:
            page = await store.find(query)
            replies = await store.apply(transition, [task.identity for task in page.items])
            changed += sum(reply.answer is Answer.OK for reply in replies)
            if page.cursor is None:
                return changed
            query = replace(query, cursor=page.cursor)


async def _facts(store: Store, identity: Identity, position: QueuePosition) -> WaitFacts:
    """What was seen of a task, with those who serve its type and what ran of it lately."""
    record, now = position.record, position.now
    followed = record.task_type.after
    before = await store.get([Identity(name, identity.key) for name in followed]) if followed else []
    serving = alive(await store.instances(), now, identity.task_type)
    slices = await store.history(Resolution.MINUTE, now - _LATELY_MS, task_type=identity.task_type)
    return WaitFacts(
        task_type=record.effective,
        is_enabled=record.enabled,
        is_frozen=bool(record.overrides.frozen),
        is_draining=bool(record.overrides.draining),
        task=position.task,
        past=position.past,
        now=now,
        ahead=position.ahead,
        is_more_ahead=position.ahead >= MAX_AHEAD,
        running=position.running,
        serial_running=position.serial_running,
        tokens=position.tokens,
        start_tokens=position.start_tokens,
        arrived=position.arrived,
        before={name: None if task is None else task.status for name, task in zip(followed, before, strict=True)},
        instances=len(serving),
        ran=sum(each.runs for each in slices),
        ran_within_ms=_LATELY_MS,
    )
