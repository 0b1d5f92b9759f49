"""The schedules of a group, or of all groups: listed for people and agents, and as the file that lies in a group's
folder before its agent starts (`current_tasks.json`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from rota.agents.groups import Group
from rota.agents.schedules.agent_task import AGENT, Origin, next_run_of, payload_of, status_of, value_of
from rota.agents.schedules.origins import Origins
from rota.agents.schedules.schedule import AgentSchedule
from rota.clock import Instant, isoformat
from rota.core.task import Identity, Task, TaskStatus
from rota.errors import InvalidInput
from rota.group_commit import GroupCommit, write_together
from rota.logs import get_logger
from rota.stores.base import Page, Store, TaskQuery, page_of
from rota.triggers import decode_trigger

__all__ = [
    "MOST_LISTED",
    "SNAPSHOT",
    "Finder",
    "FoundTogether",
    "Zones",
    "live_page_of",
    "schedules_of",
    "snapshot_of",
    "tasks_of",
]

MOST_LISTED = 1_000
"""Schedules in one list or snapshot; a group's quota lies far below."""
SNAPSHOT: Final = "current_tasks.json"

_log = get_logger("rota.agents")


@dataclass(frozen=True)
class Zones:
    """The zone that each group speaks in."""

    by_group: Mapping[str, str | None]
    default: str

    def of(self, folder: str) -> str:
        return self.by_group.get(folder) or self.default


class Finder(Protocol):
    """Finds tasks, as a store does."""

    async def find(self, query: TaskQuery) -> Page[Task]: ...


class FoundTogether:
    """Finds tasks for many who ask at the same time: what is asked while the store answers is its next call."""

    def __init__(self, store: Store) -> None:
        self._asked: GroupCommit[TaskQuery, Page[Task]] = GroupCommit(
            partial(write_together, store.find_many), lambda _: 1
        )

    async def find(self, query: TaskQuery) -> Page[Task]:
        """A page of tasks, as they are now or later."""
        (page,) = await self._asked.submit([query])
        return page


async def schedules_of(
    store: Finder, origins: Origins, zones: Zones, folder: str | None, *, with_finished: bool = False
) -> list[AgentSchedule]:
    """What is scheduled for a group (None: for all), by id, and after it what waits for approval."""
    tasks = await tasks_of(store, folder, with_finished=with_finished)
    known = await origins.get([task.key for task in tasks])
    found = _shown(tasks, known, zones)
    waiting = [one for one in await origins.waiting(folder) if one.proposal is not None]
    found += [AgentSchedule.of_proposal(one, zones.of(one.folder)) for one in waiting if one.id not in known]
    return found


async def live_page_of(
    store: Store, origins: Origins, zones: Zones, folder: str | None, *, after: str | None, limit: int
) -> Page[AgentSchedule]:
    """A page of what is scheduled for a group (None: for all) and not over, by id, behind the id `after`; the cursor is
    the last id. Only so many are read and made ready: a page of a thousand costs no more than one of fifty."""
    cursor = None if after is None else str(Identity(AGENT, after))
    asked = partial(TaskQuery, task_type=AGENT, owner=folder, schedules=folder is None, cursor=cursor, limit=limit + 1)
    queries = [asked(status=status) for status in TaskStatus if status.is_live]
    pages = zip(queries, await store.find_many(queries), strict=True)
    found = [await _all_of(store, query, page, most=limit + 1) for query, page in pages]
    # One that changed meanwhile may have been met twice.
    by_id = {task.key: task for task in chain.from_iterable(found)}
    page = page_of([by_id[schedule_id] for schedule_id in sorted(by_id)], limit, lambda task: task.key)
    known = await origins.get([task.key for task in page.items])
    return Page(_shown(page.items, known, zones), page.cursor)


def _shown(tasks: Sequence[Task], known: Mapping[str, Origin], zones: Zones) -> list[AgentSchedule]:
    found: list[AgentSchedule] = []
    for task in tasks:
        try:
            found.append(AgentSchedule.of_task(task, known.get(task.key), zones.of(task.owner or "")))
        except InvalidInput as error:
            # Somebody's own payload in this type: its run says what is wrong; a list must not fail for it.
            _log.warning("agent schedule cannot be shown", schedule=task.key, error=str(error))
    return found


async def tasks_of(store: Finder, folder: str | None, *, with_finished: bool = False) -> list[Task]:
    """The scheduled tasks of a group (None: of all), by id."""
    # All that a group owns is scheduled, but for what somebody's code does by hand: asking for it costs a look more.
    asked = partial(TaskQuery, task_type=AGENT, owner=folder, schedules=folder is None, limit=MOST_LISTED)
    page = await store.find(asked())
    if page.cursor is None or with_finished:
        tasks = page.items if page.cursor is None else await _all_of(store, asked(), page)
        return [task for task in tasks if task.trigger is not None and (with_finished or task.status.is_live)]
    # Many: what is over may be most of it, and must not take the place of what is not.
    found = [await _all_of(store, asked(status=status)) for status in TaskStatus if status.is_live]
    # One that changed meanwhile may have been met twice.
    by_id = {task.key: task for task in chain.from_iterable(found)}
    return [by_id[schedule_id] for schedule_id in sorted(by_id)[:MOST_LISTED]]


async def _all_of(
    store: Finder, query: TaskQuery, page: Page[Task] | None = None, *, most: int = MOST_LISTED
) -> list[Task]:
    """The schedules that a query finds, up to the most that are wanted, from its first page on."""
    tasks: list[Task] = []
    page = page or await store.find(query)
    while True:
        tasks += [task for task in page.items if task.trigger is not None]
        if page.cursor is None or len(tasks) >= most:
            return tasks[:most]
        page = await store.find(replace(query, cursor=page.cursor))


# --- in the folder of a group ---


def snapshot_of(tasks: Sequence[Task], waiting: Sequence[Origin], zones: Zones, group: Group) -> bytes:
    """What a group's agent may know: the rows of the schedules, and after them what waits for approval. Main sees all,
    every other group its own."""
    rows = [
        _row(task.key, task.payload, task.trigger, zones.of(task.owner or ""), status_of(task), next_run_of(task))
        for task in tasks
    ]
    known = {task.key for task in tasks}
    for one in waiting:
        asked = one.proposal
        if asked is not None and one.id not in known:
            zone = zones.of(one.folder)
            rows.append(_row(one.id, asked.payload, asked.trigger, zone, "waiting_for_approval", None))
    seen = [row for row in rows if row is not None and (group.is_main or row["groupFolder"] == group.folder)]
    return msgspec.json.encode(seen)


def _row(
    schedule_id: str, payload: str | None, trigger: str | None, timezone: str, status: str, next_at: Instant | None
) -> dict[str, object] | None:
    try:
        does = payload_of(payload)
    except InvalidInput as error:
        # Somebody's own payload in this type: its run says what is wrong; the others' must not fail for it.
        _log.warning("agent schedule cannot be shown", schedule=schedule_id, error=str(error))
        return None
    due = None if trigger is None else decode_trigger(trigger)
    return {
        "id": schedule_id,
        "groupFolder": does.group_folder,
        "prompt": does.prompt,
        "schedule_type": "once" if due is None else due.kind,
        "schedule_value": "" if due is None else value_of(due, does.timezone or timezone),
        "status": status,
        "next_run": isoformat(next_at),
    }
