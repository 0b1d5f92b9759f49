"""One task: its state, why it waits, where its time went, what each attempt left, and what can be done to it."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rota.api.paths import KeyInPath, quote_key
from rota.app.as_test import as_test, import_of
from rota.app.course import Course, course_of_task
from rota.app.related import kin_of
from rota.core.lifecycle import TABLE
from rota.core.run_details import RunDetails
from rota.core.task import Identity, RunRecord, Task, TaskStatus, Transition
from rota.dashboard import actions
from rota.dashboard.view import Page, View
from rota.dashboard.waterfall import drawn
from rota.errors import RotaError, StoreError, UnknownTask
from rota.keys import GLOBAL_KEY, shown_key
from rota.stores.base import DETAILED_RUNS

__all__ = ["identity_of", "show"]

LANES = (TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.COMPLETED)
ASIDE = (TaskStatus.PAUSED, TaskStatus.FAILED, TaskStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt and what it has left; without a record while it runs."""

    token: int
    number: int
    run: RunRecord | None
    details: RunDetails | None
    instance: str | None


async def identity_of(view: View, task_type: str, key: str) -> tuple[Identity, Task]:
    """The task that a URL names. "global" is a type's own task unless a task of that very key is there."""
    store = await view.store()
    keys = [key, GLOBAL_KEY] if key == shown_key(GLOBAL_KEY) else [key]
    for task in await store.get([Identity(task_type, each) for each in keys]):
        if task is not None:
            return task.identity, task
    raise UnknownTask(
        f"There is no task {task_type}/{shown_key(key)}. It was never made, or it was purged after its retention."
    )


async def show(view: View, task_type: str, key: KeyInPath) -> Page:
    identity, task = await identity_of(view, task_type, key)
    course, waiting = await asyncio.gather(course_of_task(await view.store(), task, view.now), _waiting(view, task))
    kin = await kin_of(await view.store(), view.app.host.parts.values(), task, course.waterfall, view.now)
    api = f"/api/tasks/{task_type}/{quote_key(identity.key)}"
    return Page(
        "task.html",
        f"{task_type}/{shown_key(identity.key)}",
        {
            "task": task,
            "runs": course.runs.items,
            "more_runs": course.runs.cursor is not None,
            "waiting": waiting,
            "actions": actions.of_task(task),
            "again": actions.again(task),
            "fall": drawn(view, course.waterfall.with_others(kin.rows)),
            "kin": kin,
            "attempts": list(_attempts(task, course)),
            "lanes": LANES,
            "aside": ASIDE,
            "events_here": [transition.value for transition in Transition if task.status in TABLE[transition]],
            "test": as_test(task, task, task.payload, import_of(view.app, task.task_type)),
            "commands": [
                (f"rota task show {_arguments(identity)}", view.call("GET", api)),
                (f"rota task explain {_arguments(identity)}", view.call("GET", f"{api}/explain")),
            ],
        },
        concerns=task_type,
        within="tasks",
    )


def _arguments(identity: Identity) -> str:
    return shlex.join([identity.task_type, *([] if identity.key == GLOBAL_KEY else [identity.key])])


async def _waiting(view: View, task: Task) -> dict[str, object] | None:
    """Why it waits, in words. A page without an explanation is better than no page, but the store's absence is not
    hidden by it."""
    if not task.status.is_live:
        return None
    try:
        return dict((await view.app.tasks.explain(task.task_type, key=task.key)).to_dict())
    except StoreError:
        raise
    except RotaError as error:
        return {"summary": str(error), "reasons": [], "position": None, "estimate_ms": None}


def _attempts(task: Task, course: Course) -> Iterable[Attempt]:
    """The one under way and the latest ones that are over, newest first; what is older has left nothing any more."""
    if task.status is TaskStatus.RUNNING:
        yield Attempt(task.token, task.attempt, None, course.details.get(task.token), task.instance)
    for run in _begun(course.runs.items):
        yield Attempt(run.token, run.attempt, run, course.details.get(run.token), run.instance)


def _begun(runs: Sequence[RunRecord]) -> list[RunRecord]:
    return [run for run in runs if run.token][:DETAILED_RUNS]
