"""Assertions whose failure shows what is there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol, Unpack, cast

from rota.app.results import RunInfo, decoded, encode_json
from rota.app.rota import Rota, ScheduleOptions
from rota.clock import Instant, Millis, format_duration, isoformat, parse_duration
from rota.core.task import Task, TaskStatus
from rota.core.task_type import did_you_mean
from rota.stores.base import Store, TaskQuery

__all__ = ["HasStore", "Idles", "assert_not_scheduled", "assert_scheduled", "run_task", "run_until_idle"]

_SHOWN: Final = 20
_SHOWN_OF_PAYLOAD: Final = 80


class Idles(Protocol):
    """A worker or an app: something that can work off what is due."""

    async def run_until_idle(self) -> int:
        """Run everything that is due now, follow-ups included; how many runs that were."""
        ...


async def run_until_idle(app_or_worker: Idles) -> int:
    """Work off everything that is due now; how many runs that were. Move the clock first to make more of it due."""
    return await app_or_worker.run_until_idle()


async def run_task(app: Rota, task_type: str, payload: object = None, **options: Unpack[ScheduleOptions]) -> RunInfo:
    """Have one task run, now, as a worker runs it, and give its run: how it ended, what it answered or raised.

    The type may be of any kind; what else is due is run as well. A handler that is only to be called needs none of
    this: `await handler(payload)` is the plain function.
    """
    receipt = await app.schedule(task_type, payload, **options)
    await app.run_until_idle()
    runs = await app.runs(task_type, key=receipt.key, limit=1)
    if not runs.items:
        store = await app.store()
        shown = await _shown(store, task_type, await _all_of(store, task_type), await store.now())
        raise AssertionError(
            f"The task {task_type}/{receipt.key} was not run: is it due, and has it a handler? {shown}"
        )
    return runs.items[0]


class HasStore(Protocol):
    """An app: whatever can give its open store."""

    async def store(self) -> Store: ...


async def assert_scheduled(
    app: HasStore | Store,
    task_type: str,
    *,
    key: str | None = None,
    user_id: str | None = None,
    device_id: str | None = None,
    agent_id: str | None = None,
    payload: object = None,
    status: TaskStatus | str | None = None,
    within: str | float | timedelta | None = None,
    now: Instant | None = None,
) -> Task:
    """The first task of the type that fits, or a failure that lists the tasks of the type.

    `app` is an app, or a store. Without a status any live task fits (pending, running, paused). Of a payload that is a
    mapping it is enough to name what matters: `payload={"to": "ada"}`. `within` bounds how far ahead it is due, counted
    from `now` or the store's clock.
    """
    store = app if isinstance(app, Store) else await app.store()
    at = await store.now() if now is None else now
    wanted = _Wanted(task_type, key, user_id, device_id, agent_id, payload, status, _span(within))
    tasks = await _all_of(store, task_type)
    found = next((task for task in tasks if wanted.fits(task, at)), None)
    if found is None:
        raise AssertionError(f"No {wanted}. {await _shown(store, task_type, tasks, at)}")
    return found


async def assert_not_scheduled(
    app: HasStore | Store,
    task_type: str,
    *,
    key: str | None = None,
    user_id: str | None = None,
    device_id: str | None = None,
    agent_id: str | None = None,
    payload: object = None,
    status: TaskStatus | str | None = None,
    within: str | float | timedelta | None = None,
    now: Instant | None = None,
) -> None:
    """No task of the type fits, or a failure that lists them; what fits is said as in `assert_scheduled`."""
    store = app if isinstance(app, Store) else await app.store()
    at = await store.now() if now is None else now
    wanted = _Wanted(task_type, key, user_id, device_id, agent_id, payload, status, _span(within))
    tasks = await _all_of(store, task_type)
    if any(wanted.fits(task, at) for task in tasks):
        raise AssertionError(f"There should be no {wanted}. {await _shown(store, task_type, tasks, at)}")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a task must be to fit; None leaves it open."""

    task_type: str
    key: str | None
    user_id: str | None
    device_id: str | None
    agent_id: str | None
    payload: object
    status: TaskStatus | str | None
    within_ms: Millis | None

    def fits(self, task: Task, now: Instant) -> bool:
        given = {name: value for name in _NAMES if (value := getattr(self, name)) is not None}
        if any(getattr(task, name) != value for name, value in given.items()):
            return False
        if not (task.status.is_live if self.status is None else task.status == self.status):
            return False
        if self.within_ms is not None and task.scheduled_at > now + self.within_ms:
            return False
        return self.payload is None or _contains(decoded(task.payload), decoded(encode_json(self.payload, "payload")))

    def __str__(self) -> str:
        given = {name: value for name in (*_NAMES, "payload") if (value := getattr(self, name)) is not None}
        parts = [f"the {name} {value!r}" for name, value in given.items()]
        parts = [f"with {', '.join(parts)}"] if parts else []
        due = [] if self.within_ms is None else [f"due within {format_duration(self.within_ms)}"]
        return f"{self.status or 'live'} task of type {', '.join([' '.join([repr(self.task_type), *parts]), *due])}"


_NAMES: Final = ("key", "user_id", "device_id", "agent_id")


def _span(within: str | float | timedelta | None) -> Millis | None:
    return None if within is None else parse_duration(within, what="within")


def _contains(found: object, wanted: object) -> bool:
    """Whether all that is wanted is there: of mappings what is named, of anything else all of it."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        has, names = cast("dict[str, object]", found), cast("dict[str, object]", wanted)
        return all(name in has and _contains(has[name], value) for name, value in names.items())
    return found == wanted


async def _all_of(store: Store, task_type: str) -> list[Task]:
    tasks: list[Task] = []
    page = await store.find(TaskQuery(task_type=task_type))
    tasks += page.items
    while page.cursor is not None:
        page = await store.find(TaskQuery(task_type=task_type, cursor=page.cursor))
        tasks += page.items
    return tasks


async def _shown(store: Store, task_type: str, tasks: list[Task], now: Instant) -> str:
    lines = [_line(task, now) for task in tasks[:_SHOWN]]
    if len(tasks) > _SHOWN:
        lines.append(f"  ... and {len(tasks) - _SHOWN} more")
    if not tasks:
        known = [record.task_type.name for record in await store.list_types()]
        is_known = "" if task_type in known else f"; the store does not know it. {did_you_mean(task_type, known)}"
        lines.append(f"  (none of this type{is_known})")
    return f"It is {isoformat(now)}; there is:\n" + "\n".join(lines)


def _line(task: Task, now: Instant) -> str:
    ahead = task.scheduled_at - now
    due = f"in {format_duration(ahead)}" if ahead >= 0 else f"{format_duration(-ahead)} ago"
    payload = "" if task.payload is None else f", payload {_short(task.payload)}"
    return f"  {task.key}: {task.status}, due {isoformat(task.scheduled_at)} ({due}){payload}"


def _short(payload: str) -> str:
    return payload if len(payload) <= _SHOWN_OF_PAYLOAD else f"{payload[:_SHOWN_OF_PAYLOAD]}..."
