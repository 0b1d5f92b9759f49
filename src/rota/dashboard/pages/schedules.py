"""Schedules: all of them, one of them, and the form that makes or changes one."""

from __future__ import annotations

import asyncio
import json
import math
import shlex
from collections.abc import Sequence
from datetime import datetime
from itertools import chain, pairwise
from typing import Final, TypedDict

from markupsafe import Markup

from rota.api.paths import KeyInPath, quote_key
from rota.app.results import ScheduleInfo
from rota.app.schedules import instant_of, trigger_of
from rota.app.views import task_query
from rota.clock import Instant, format_duration, from_datetime, isoformat
from rota.core.task import Identity, RunRecord, Task, TaskStatus, Transition
from rota.dashboard import actions, words
from rota.dashboard.charts import Bar, spark
from rota.dashboard.forms import Form
from rota.dashboard.pages.lists import bulk_of, filled, type_names
from rota.dashboard.part import KeepsSchedules, KeptSchedule
from rota.dashboard.view import Page, View
from rota.errors import InvalidInput, UnknownTask
from rota.stores.base import RunQuery, Store, TaskSort
from rota.triggers import explain
from rota.triggers.base import decode_trigger
from rota.triggers.zone import zone

__all__ = ["KINDS", "kept_by_a_part", "new", "one", "read_when", "show", "spark_of"]

KINDS: Final = ("cron", "every", "at")
SPARK: Final = 30
FIRES: Final = 20
SCHEDULES: Final = 25
"""On one page: each has its own row of runs to read."""
BULK: Final = (
    (Transition.PAUSE, "Pause"),
    (Transition.RESUME, "Resume"),
    (Transition.RUN_NOW, "Run now"),
    (Transition.CANCEL, "Cancel"),
)


async def show(view: View) -> Page:
    query = task_query(
        type=view.given("type"),
        status=view.given("status"),
        owner=view.given("owner"),
        search=view.given("search"),
        schedules=True,
        sort=view.given("sort") or TaskSort.KEY,
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
            "looked_at": page.looked_at,
            "query": query,
            "is_filtered": any((query.task_type, query.status, query.owner, query.search)),
            "names": names,
            "statuses": list(TaskStatus),
            "actions_of": actions.of_schedule,
            "bulk": bulk_of(view, BULK, query),
        },
        concerns=query.task_type or "*",
    )


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
    label = f"the last {words.count(len(runs), 'run')}, {good} succeeded" if runs else "no runs yet"
    return spark(bars, SPARK, label)


async def one(view: View, task_type: str, schedule_id: KeyInPath) -> Page:
    store = await view.store()
    (task,) = await store.get([Identity(task_type, schedule_id)])
    if task is None or task.trigger is None:
        raise UnknownTask(f"There is no schedule {task_type}/{schedule_id}. `rota schedule ls` lists what there is.")
    info = ScheduleInfo.of(task, view.timezone)
    runs = await store.runs(RunQuery(task_type=task_type, key=schedule_id, limit=SPARK))
    ahead = explain(
        decode_trigger(task.trigger), info.timezone, FIRES, view.now, policy=task.series_policy, key=task.key
    )
    goes_on = task.status in (TaskStatus.PENDING, TaskStatus.RUNNING)
    fires = _moments(ahead.fires) if goes_on else []
    kept = await kept_by_a_part(view, task_type, schedule_id)
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
            "same": [_same(view, info) if kept is None else kept[1].same],
            "kept": None if kept is None else kept[1],
            **({} if kept is None else kept[1].values),
        },
        concerns=task_type,
        within="schedules",
    )


async def kept_by_a_part(view: View, task_type: str, schedule_id: str) -> tuple[KeepsSchedules, KeptSchedule] | None:
    """The part that knows more about a schedule, and how its page looks; None if it is one like any other."""
    for part in view.site.kept_schedules:
        found = await part.find(view, task_type, schedule_id)
        if found is not None:
            return part, found
    return None


async def new(view: View) -> Page:
    names = await type_names(view)
    given = {name: view.given(name) or "" for name in ("type", "id", "kind", "value", "timezone", "payload", "owner")}
    example: dict[str, object] = {"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin", "payload": {}}
    same = (
        "rota schedule add TYPE ID --cron '0 9 * * 1-5' --timezone Europe/Berlin --payload '{}'",
        view.call("PUT", "/api/schedules/TYPE/ID", json.dumps(example)),
    )
    form = {**_EMPTY, **{name: value for name, value in given.items() if value}}
    return Page("schedule_new.html", "New schedule", {"names": names, "form": form, "same": [same]}, within="schedules")


def read_when(view: View, form: Form) -> None:
    """Say what is wrong with the fields of a form that tell when a schedule fires, if anything is."""
    form.require("value")
    zone_name = form.read("timezone", _known_zone) or view.timezone
    form.read("kind", _known_kind)
    form.read("value", lambda text: trigger_of(**_by_kind(form, text), timezone=zone_name, now=view.now))
    form.read("expires", lambda text: instant_of(text, zone_name, view.now, what="expires"))


def _known_zone(name: str) -> str:
    zone(name)
    return name


def _known_kind(kind: str) -> str:
    if kind not in KINDS:
        raise InvalidInput(f"A schedule goes by cron, every or at, not by {kind[:20]!r}.")
    return kind


def _by_kind(form: Form, value: str) -> _Times:
    kind = form.get("kind") or "cron"
    return _Times(
        cron=value if kind not in ("every", "at") else None,
        every=value if kind == "every" else None,
        at=value if kind == "at" else None,
    )


class _Times(TypedDict):
    cron: str | None
    every: str | None
    at: str | None


def _moments(fires: Sequence[str]) -> list[Instant]:
    return [from_datetime(datetime.fromisoformat(fire)) for fire in fires]


def _gaps(fires: Sequence[Instant]) -> list[str]:
    """How long after the one before it each fire comes."""
    return ["", *(words.span(later - earlier) for earlier, later in pairwise(fires))]


_EMPTY: Final = {
    "type": "", "id": "", "kind": "cron", "value": "", "timezone": "", "payload": "", "owner": "", "misfire": "latest",
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
        "timezone": info.timezone if info.kind == "cron" else "",
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


def _same(view: View, info: ScheduleInfo) -> tuple[str, str]:
    """What makes the same schedule, on the command line and over HTTP. A payload that is hidden is so here too."""
    settings = _settings(info)
    if info.payload is not None:
        settings["payload"] = "hidden" if view.preferences.hides_payloads else info.to_dict()["payload"]
    said = {name: value for name, value in settings.items() if name != "serial"}  # the command line has no word for it
    options = [(f"--{name.replace('_', '-')}", _written(name, value)) for name, value in said.items()]
    command = shlex.join(["rota", "schedule", "add", info.task_type, info.id, *chain.from_iterable(options)])
    path = f"/api/schedules/{info.task_type}/{quote_key(info.id)}"
    return command, view.call("PUT", path, json.dumps(settings, ensure_ascii=False))


def _written(name: str, value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if name == "payload" else str(value)


def _settings(info: ScheduleInfo) -> dict[str, object]:
    """What was set of a schedule, by the names of the API; what is as it would be anyway is left out."""
    kind, value = _when(info)
    every: dict[str, object] = {
        kind: value,
        "timezone": info.timezone if kind == "cron" else None,
        "owner": info.owner,
        "misfire": info.misfire if info.misfire != "latest" else None,
        "overlap": info.overlap if info.overlap != "skip" else None,
        "jitter": format_duration(info.jitter_ms) if info.jitter_ms else None,
        "grace": None if info.grace_ms is None else format_duration(info.grace_ms),
        "max_runs": info.max_runs,
        "expires": None if info.expires_at is None else isoformat(from_datetime(info.expires_at)),
        "priority": info.priority,
        "serial": info.serial,
    }
    return {name: given for name, given in every.items() if given is not None}
