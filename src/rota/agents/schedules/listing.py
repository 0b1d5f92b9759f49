"""The schedules of a group, or of all groups, with where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from msgspec.structs import replace

from rota.agents.schedules.agent_task import AGENT
from rota.agents.schedules.origins import Origins
from rota.agents.schedules.schedule import AgentSchedule
from rota.core.task import Task, TaskStatus
from rota.errors import InvalidInput
from rota.logs import get_logger
from rota.stores.base import Page, Store, TaskQuery

__all__ = ["MOST_LISTED", "Zones", "schedules_of", "tasks_of"]

MOST_LISTED = 1_000
"""Schedules in one list or snapshot; a group's quota lies far below."""

_log = get_logger("rota.agents")


@dataclass(frozen=True)
class Zones:
    """The zone that each group speaks in."""

    by_group: Mapping[str, str | None]
    default: str

    def of(self, folder: str) -> str:
        return self.by_group.get(folder) or self.default


async def schedules_of(
    store: Store, origins: Origins, zones: Zones, folder: str | None, *, with_finished: bool = False
) -> list[AgentSchedule]:
    """What is scheduled for a group (None: for all), by id, and after it what waits for approval."""
    tasks = await tasks_of(store, folder, with_finished=with_finished)
    known = await origins.get([task.key for task in tasks])
    found: list[AgentSchedule] = []
    for task in tasks:
        try:
            found.append(AgentSchedule.of_task(task, known.get(task.key), zones.of(task.owner or "")))
        except InvalidInput as error:
            # Somebody's own payload in this type: its run says what is wrong; a list must not fail for it.
            _log.warning("agent schedule cannot be shown", schedule=task.key, error=str(error))
    waiting = [one for one in await origins.waiting(folder) if one.proposal is not None]
    found += [AgentSchedule.of_proposal(one, zones.of(one.folder)) for one in waiting if one.id not in known]
    return found


async def tasks_of(store: Store, folder: str | None, *, with_finished: bool = False) -> list[Task]:
    """The scheduled tasks of a group (None: of all), by id."""
    query = _query(folder)
    page = await store.find(query)
    if page.cursor is None or with_finished:
        tasks = page.items if page.cursor is None else await _all_of(store, query, page)
        return [task for task in tasks if task.trigger is not None and (with_finished or task.status.is_live)]
    # Many: what is over may be most of it, and must not take the place of what is not.
    found = [await _all_of(store, _query(folder, status)) for status in TaskStatus if status.is_live]
    # One that changed meanwhile may have been met twice.
    by_id = {task.key: task for task in chain.from_iterable(found)}
    return [by_id[schedule_id] for schedule_id in sorted(by_id)[:MOST_LISTED]]


def _query(folder: str | None, status: TaskStatus | None = None) -> TaskQuery:
    # All that a group owns is scheduled, but for what somebody's code does by hand: asking for it costs a look more.
    return TaskQuery(task_type=AGENT, owner=folder, status=status, schedules=folder is None, limit=200)


async def _all_of(store: Store, query: TaskQuery, page: Page[Task] | None = None) -> list[Task]:
    """The schedules that a query finds, up to the most that are listed, from its first page on."""
    tasks: list[Task] = []
    page = page or await store.find(query)
    while True:
        tasks += [task for task in page.items if task.trigger is not None]
        if page.cursor is None or len(tasks) >= MOST_LISTED:
            return tasks[:MOST_LISTED]
        page = await store.find(replace(query, cursor=page.cursor))
