"""Schedules: all of them, one of them, and the form that makes or changes one."""

from __future__ import annotations

import asyncio
import json
import math
import shlex
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

from markupsafe import Markup

from rota.answers import ScheduleInfo
from rota.api.paths import quote_key
from rota.clock import Instant, format_duration, from_datetime, isoformat
from rota.core.task import Event, Identity, RunRecord, Task, TaskStatus
from rota.dashboard import actions, words
from rota.dashboard.charts import Bar, spark
from rota.dashboard.pages.lists import filled, type_names
from rota.dashboard.view import Page, View
from rota.errors import UnknownTask
from rota.stores.base import RunQuery, Store, TaskQuery
from rota.tasks import choice
from rota.triggers import explain
from rota.triggers.base import decode_trigger

__all__ = ["new", "one", "show", "spark_of"]

SPARK: Final = 30
FIRES: Final = 20
SCHEDULES: Final = 25
"""On one page: each has its own row of runs to read."""
BULK: Final = ((Event.PAUSE, "Pause"), (Event.RESUME, "Resume"), (Event.RUN_NOW, "Run now"), (Event.CANCEL, "Cancel"))


async def show(view: View) -> Page:
    status = view.given("status")
    query = TaskQuery(
        task_type=view.given("type"),
        status=None if status is None else choice(TaskStatus, status, "status"),
        owner=view.given("owner"),
        search=view.given("search"),
        schedules=True,
        cursor=view.given("cursor"),
        limit=SCHEDULES,
    )
    store = await view.store()
    page, names = await asyncio.gather(filled(store, query), type_names(view))
    sparks = await asyncio.gather(*(_spark(view, store, task.identity) for task in page.items))
    rows = [(task, ScheduleInfo.of(task, view.timezone), drawn) for task, drawn in zip(page.items, sparks, strict=True)]
    return Page(
        "schedules.html",
        "Schedules",
        {
            "rows": rows,
            "cursor": page.cursor,
            "query": query,
            "is_filtered": any((query.task_type, query.status, query.owner, query.search)),
            "names": names,
            "statuses": list(TaskStatus),
            "actions_of": actions.of_schedule,
            "bulk": [(event, label, _bulk_call(view, event, query)) for event, label in BULK],
        },
        concerns=query.task_type or "*",
    )


def _bulk_call(view: View, event: Event, query: TaskQuery) -> str:
    """The command line acts on all tasks that match, not on schedules alone; the API can be told."""
    given = {"type": query.task_type, "status": query.status, "owner": query.owner, "search": query.search}
    selection = {name: str(value) for name, value in given.items() if value is not None}
    body = json.dumps({"event": event.value, "query": {**selection, "schedules": True}})
    return actions.call("POST", f"{view.origin}/api/tasks/bulk", body)


async def _spark(view: View, store: Store, identity: Identity) -> Markup:
    page = await store.runs(RunQuery(task_type=identity.task_type, key=identity.key, limit=SPARK))
    return spark_of(view, page.items)


def spark_of(view: View, runs: Sequence[RunRecord]) -> Markup:
    """The last runs as a row of bars, oldest left."""
    longest = max([1, *(run.duration_ms for run in runs)])
    bars = [
        Bar(
            run.status.value,
            math.sqrt(run.duration_ms / longest),
            f"{view.clock(run.started_at)}: {run.status}, {words.span(run.duration_ms)}",
        )
        for run in reversed(runs)
    ]
    good = sum(run.status == "success" for run in runs)
    label = f"the last {words.count(len(runs), 'run')}, {good} of them good" if runs else "no runs yet"
    return spark(bars, SPARK, label)


async def one(view: View, task_type: str, schedule_id: str) -> Page:
    store = await view.store()
    (task,) = await store.get([Identity(task_type, schedule_id)])
    if task is None or task.trigger is None:
        raise UnknownTask(f"There is no schedule {task_type}/{schedule_id}. `rota schedule ls` lists what there is.")
    info = ScheduleInfo.of(task, view.timezone)
    runs = await store.runs(RunQuery(task_type=task_type, key=schedule_id, limit=SPARK))
    ahead = explain(
        decode_trigger(task.trigger), info.timezone, FIRES, view.now, policy=task.series_policy, key=task.key
    )
    fires = _moments(ahead.fires) if task.status.is_live else []
    return Page(
        "schedule.html",
        f"{task_type}/{schedule_id}",
        {
            "task": task,
            "info": info,
            "fires": fires,
            "gaps": _gaps(fires),
            "notes": ahead.notes,
            "runs": runs.items,
            "spark": spark_of(view, runs.items),
            "actions": actions.of_schedule(task),
            "form": _form_of(task, info),
            "command": _add_command(info),
            "curl": actions.call(
                "PUT", f"{view.origin}/api/schedules/{task_type}/{quote_key(schedule_id)}", _body(info)
            ),
        },
        concerns=task_type,
    )


async def new(view: View) -> Page:
    names = await type_names(view)
    given = {name: view.given(name) or "" for name in ("type", "id", "kind", "value", "tz", "payload", "owner")}
    return Page(
        "schedule_new.html",
        "New schedule",
        {"names": names, "form": {**_EMPTY, **{name: value for name, value in given.items() if value}}},
    )


def _moments(fires: Sequence[str]) -> list[Instant]:
    return [from_datetime(datetime.fromisoformat(fire)) for fire in fires]


def _gaps(fires: Sequence[Instant]) -> list[str]:
    """How long after the one before it each fire comes."""
    return ["", *(words.span(later - earlier) for earlier, later in pairwise(fires))]


_EMPTY: Final = {
    "type": "", "id": "", "kind": "cron", "value": "", "tz": "", "payload": "", "owner": "", "misfire": "latest",
    "overlap": "skip", "jitter": "", "grace": "", "max_runs": "", "expires": "", "priority": "", "serial": "",
}  # fmt: skip


def _form_of(task: Task, info: ScheduleInfo) -> dict[str, str]:
    """What the form shows of a schedule as it stands."""
    return {
        **_EMPTY,
        "type": info.task_type,
        "id": info.id,
        "kind": {"interval": "every", "once": "at"}.get(info.kind, "cron"),
        "value": format_duration(int(info.value)) if info.kind == "interval" else info.value,
        "tz": info.timezone if info.kind == "cron" else "",
        "payload": words.pretty(task.payload),
        "owner": info.owner or "",
        "misfire": info.misfire,
        "overlap": info.overlap,
        "jitter": format_duration(info.jitter_ms) if info.jitter_ms else "",
        "grace": "" if info.grace_ms is None else format_duration(info.grace_ms),
        "max_runs": "" if info.max_runs is None else str(info.max_runs),
        "expires": isoformat(task.expires_at) or "",
        "priority": str(info.priority),
        "serial": info.serial or "",
    }


def _when(info: ScheduleInfo) -> tuple[str, str]:
    if info.kind == "interval":
        return "every", format_duration(int(info.value))
    return ("at" if info.kind == "once" else "cron"), info.value


def _add_command(info: ScheduleInfo) -> str:
    kind, value = _when(info)
    options = ["--tz", info.timezone] if kind == "cron" else []
    if info.payload is not None:
        options += ["--payload", json.dumps(info.payload, ensure_ascii=False)]
    if info.owner is not None:
        options += ["--owner", info.owner]
    return shlex.join(["rota", "schedule", "add", info.task_type, info.id, f"--{kind}", value, *options])


def _body(info: ScheduleInfo) -> str:
    kind, value = _when(info)
    body = {kind: value, "tz": info.timezone if kind == "cron" else None, "payload": info.payload, "owner": info.owner}
    return json.dumps({name: given for name, given in body.items() if given is not None}, ensure_ascii=False)
