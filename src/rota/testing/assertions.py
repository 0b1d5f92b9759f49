"""Assertions whose failure shows what is there."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from rota.clock import Instant, format_duration, isoformat, parse_duration
from rota.core.task import Task, TaskStatus
from rota.stores.base import Store, TaskQuery

__all__ = ["Idles", "assert_scheduled", "run_until_idle"]

_SHOWN = 20


class Idles(Protocol):
    """A worker or an app: something that can work off what is due."""

    async def run_until_idle(self) -> int:
        """Run everything that is due now, follow-ups included; how many runs that were."""
        ...


async def run_until_idle(app_or_worker: Idles) -> int:
    """Work off everything that is due now; how many runs that were. Move the clock first to make more of it due."""
    return await app_or_worker.run_until_idle()


async def assert_scheduled(
    store: Store,
    task_type: str,
    *,
    key: str | None = None,
    status: TaskStatus | str | None = None,
    within: str | float | timedelta | None = None,
    now: Instant | None = None,
) -> Task:
    """The first task of the type that fits, or a failure that lists the tasks of the type.

    Without a status any live one fits (pending, running, paused). `within` bounds how far ahead it is due, counted from
    `now` or the store's clock.
    """
    at = await store.now() if now is None else now
    latest_at = None if within is None else at + parse_duration(within, what="within")
    tasks = await _all_of(store, task_type)
    for task in tasks:
        if _fits(task, key, status, latest_at):
            return task
    raise AssertionError(_message(task_type, key, status, within, tasks, at))


async def _all_of(store: Store, task_type: str) -> list[Task]:
    tasks: list[Task] = []
    page = await store.find(TaskQuery(task_type=task_type))
    tasks += page.items
    while page.cursor is not None:
        page = await store.find(TaskQuery(task_type=task_type, cursor=page.cursor))
        tasks += page.items
    return tasks


def _fits(task: Task, key: str | None, status: TaskStatus | str | None, latest_at: Instant | None) -> bool:
    if key is not None and task.key != key:
        return False
    if not (task.status.is_live if status is None else task.status == status):
        return False
    return latest_at is None or task.scheduled_at <= latest_at


def _message(
    task_type: str,
    key: str | None,
    status: TaskStatus | str | None,
    within: str | float | timedelta | None,
    tasks: list[Task],
    now: Instant,
) -> str:
    wanted = f"No {status or 'live'} task of type {task_type!r}"
    wanted += "" if key is None else f" with the key {key!r}"
    wanted += "" if within is None else f", due within {format_duration(parse_duration(within))}"
    shown = "\n".join(_line(task, now) for task in tasks[:_SHOWN]) or "  (none of this type)"
    more = f"\n  ... and {len(tasks) - _SHOWN} more" if len(tasks) > _SHOWN else ""
    return f"{wanted}. It is {isoformat(now)}; there is:\n{shown}{more}"


def _line(task: Task, now: Instant) -> str:
    ahead = task.scheduled_at - now
    due = f"in {format_duration(ahead)}" if ahead >= 0 else f"{format_duration(-ahead)} ago"
    return f"  {task.key}: {task.status}, due {isoformat(task.scheduled_at)} ({due})"
