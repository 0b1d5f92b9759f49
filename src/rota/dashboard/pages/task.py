"""One task: its state, why it waits, what ran, what it carries, and what can be done to it."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence

from markupsafe import Markup

from rota.api.paths import KeyInPath, quote_key
from rota.clock import Instant
from rota.core.lifecycle import TABLE
from rota.core.task import Identity, RunRecord, Task, TaskStatus, Transition
from rota.dashboard import actions, words
from rota.dashboard.charts import Mark, timeline
from rota.dashboard.view import Page, View
from rota.errors import RotaError, StoreError, UnknownTask
from rota.keys import GLOBAL_KEY, shown_key
from rota.stores.base import RunQuery

__all__ = ["drawn_runs", "identity_of", "show"]

LATEST_RUNS = 30
LANES = (TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.COMPLETED)
ASIDE = (TaskStatus.PAUSED, TaskStatus.FAILED, TaskStatus.CANCELLED)


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
    store = await view.store()
    runs, waiting = await asyncio.gather(
        store.runs(RunQuery(task_type=task_type, key=identity.key, limit=LATEST_RUNS)), _waiting(view, task)
    )
    api = f"/api/tasks/{task_type}/{quote_key(identity.key)}"
    return Page(
        "task.html",
        f"{task_type}/{shown_key(identity.key)}",
        {
            "task": task,
            "runs": runs.items,
            "more_runs": runs.cursor is not None,
            "waiting": waiting,
            "actions": actions.of_task(task),
            "chart": drawn_runs(view, task, runs.items),
            "lanes": LANES,
            "aside": ASIDE,
            "events_here": [transition.value for transition in Transition if task.status in TABLE[transition]],
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


def drawn_runs(view: View, task: Task, runs: Sequence[RunRecord]) -> Markup:
    """When it waited and when it ran, from the first thing known of it until now or until it is due."""
    first = min([task.created_at, *(run.started_at for run in runs)])
    if len(runs) > 1:  # a long silence before the oldest known run would squeeze everything else
        first = max(first, min(run.started_at for run in runs) - (view.now - min(r.started_at for r in runs)) // 20)
    last = max(view.now, task.scheduled_at if task.status is TaskStatus.PENDING else view.now)
    marks = [_mark(view, run) for run in reversed(runs)]
    if task.status is TaskStatus.RUNNING and task.claimed_at is not None:
        marks.append(Mark(task.claimed_at, view.now, "running", f"running since {view.clock(task.claimed_at)}"))
    if task.status is TaskStatus.PENDING:
        since = max([task.created_at, *(run.started_at + run.duration_ms for run in runs)])
        marks.insert(0, Mark(since, _end(task, view.now), "wait", f"waits until {view.clock(task.scheduled_at)}"))
    label = f"{words.count(len(runs), 'run')} between {view.clock(first)} and {view.clock(last)}"
    return timeline(marks, first, last, label)


def _end(task: Task, now: Instant) -> Instant:
    return max(task.scheduled_at, now)


def _mark(view: View, run: RunRecord) -> Mark:
    said = f"{run.status}{'' if run.reason is None else f' ({run.reason})'}, {words.span(run.duration_ms)}"
    return Mark(
        run.started_at, run.started_at + run.duration_ms, run.status.value, f"{view.clock(run.started_at)}: {said}"
    )
