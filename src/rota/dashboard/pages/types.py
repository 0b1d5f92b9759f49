"""One task type: how it does, who runs it, its settings and where each comes from, and a form to try it."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rota.app.declarations import declaration_of
from rota.app.overview import minutes_of, overview
from rota.clock import MINUTE, Instant, format_duration
from rota.core.declaration import Declaration, Takes
from rota.core.history import Resolution, Slice, percentile
from rota.core.task_type import RateLimit, RetryPolicy, TaskType, TriggerMode, setting_name
from rota.dashboard import actions, run_once, words
from rota.dashboard.charts import nice_top, powers_up_to
from rota.dashboard.over_time import columns_of, lateness, per_column, throughput, worst
from rota.dashboard.pages.failures import rows_of
from rota.dashboard.view import Page, View
from rota.dashboard.words import NOTHING
from rota.errors import UnknownTaskType
from rota.stores.base import LIMITS, TypeRecord

__all__ = ["show"]

MOST_FAILURES: Final = 6


async def show(view: View, task_type: str) -> Page:
    minutes = 1_440 if view.given("minutes") == "1440" else 60
    store = await view.store()
    since_at = Resolution.MINUTE.start_of(view.now) - (minutes - 1) * MINUTE
    seen, records, slices, declaration, failures = await asyncio.gather(
        overview(view.app, minutes),
        view.app.types(),
        store.history(Resolution.MINUTE, since_at, task_type=task_type),
        declaration_of(store, task_type),
        store.failures(task_type),
    )
    record = next((each for each in records if each.task_type.name == task_type), None)
    if record is None:
        raise UnknownTaskType(f"There is no type {task_type!r}. The overview lists those that the store knows.")
    settings = record.effective
    takes, is_activity = declaration.takes, settings.trigger_mode is TriggerMode.USER_ACTIVITY
    heard = [found for found in failures if not found.group.is_muted(view.now)]
    return Page(
        "type.html",
        task_type,
        {
            "record": record,
            "settings": settings,
            "slots": _slots(settings),
            "rows": _rows(record, declaration),
            "one": next(each for each in seen.types if each.task_type == task_type),
            "instances": [each for each in seen.instances if task_type in each.types and not each.is_silent],
            "actions": actions.of_type(record),
            "limits": _limits(view, record),
            "is_activity": is_activity,
            "activity_in": format_duration(settings.interval_ms),
            "takes": takes,
            "declared_by": declaration.by,
            "questions": run_once.questions(takes),
            "ids": _ids(takes, is_activity=is_activity),
            "made_by": view.site.made_by.get(task_type),
            "same_as_running": _same_as_running(view, task_type),
            "minutes": minutes,
            "windows": ((60, "1 hour"), (1_440, "24 hours")),
            **_over_time(view, slices, since_at, minutes),
            "failures": rows_of(view, heard[:MOST_FAILURES]),
            "more_failures": len(heard) - MOST_FAILURES,
        },
        concerns=task_type,
        within="overview",
    )


def _over_time(view: View, slices: Sequence[Slice], since_at: Instant, minutes: int) -> dict[str, object]:
    """How much of it ran, how late and how long, as charts and figures."""
    columns = columns_of(list(minutes_of(slices, since_at, minutes)))
    top = nice_top(max([1, *(success + failed + aside for _, success, failed, aside, *_ in columns)]))
    powers = powers_up_to(worst(column[5] for column in columns))
    runs = sum(piece.runs for piece in slices)
    return {
        "throughput": throughput(view, columns, top),
        "top": top,
        "per_column": per_column(-(-minutes // len(columns))),
        "first_at": columns[0][0],
        "lateness": lateness(view, columns, powers),
        "late_axis": [words.span(10**power) for power in range(powers, -1, -1)],
        "runs_a_minute": f"{runs / minutes:.2f}".rstrip("0").rstrip("."),
        "took_p50": percentile((piece.took for piece in slices), 0.5),
        "took_p99": percentile((piece.took for piece in slices), 0.99),
    }


def _ids(takes: Takes | None, *, is_activity: bool) -> list[str]:
    """Whose task it is: what the handler asks for, and the user of an activity."""
    if takes is None or is_activity:
        return list(run_once.IDS)
    return [name for name in run_once.IDS if name in takes.ids]


def _same_as_running(view: View, task_type: str) -> tuple[str, str]:
    body = json.dumps({"task_type": task_type, "payload": {}})
    return shlex.join(["rota", "task", "schedule", task_type, "--payload", "{}"]), view.call("POST", "/api/tasks", body)


def _slots(settings: TaskType) -> str:
    """How many of the type may run at once in an instance."""
    if settings.slots == "own":
        return f"{settings.concurrency or 'max_concurrent'} slots of its own"
    return str(settings.concurrency or "all slots")


def _limits(view: View, record: TypeRecord) -> list[tuple[str, str]]:
    """Setting the limits as they are now (or some that could be), and taking them back."""
    now, path = record.effective, f"/api/types/{record.task_type.name}"
    concurrency, rate = now.concurrency or 4, now.rate_limit or RateLimit(rate=2.0, burst=10)
    said = ["--concurrency", str(concurrency), "--max-pending", str(now.max_pending)]
    said += ["--rate", f"{rate.rate:g}", "--burst", str(rate.burst)]
    limits: dict[str, object] = {"concurrency": concurrency, "max_pending": now.max_pending}
    limits["rate_limit"] = {"rate": rate.rate, "burst": rate.burst}
    if now.start_limit is not None:
        said += ["--start-rate", f"{now.start_limit.rate:g}", "--start-burst", str(now.start_limit.burst)]
        limits["start_limit"] = {"rate": now.start_limit.rate, "burst": now.start_limit.burst}
    body, none = json.dumps(limits), json.dumps(dict.fromkeys(LIMITS))
    set_, clear = (shlex.join(["rota", "type", "limit", now.name, *options]) for options in (said, ["--clear"]))
    return [(set_, view.call("PATCH", path, body)), (clear, view.call("PATCH", path, none))]


def _shown(field: str, value: object) -> str:
    match value:
        case None | () | "":
            return NOTHING
        case bool():
            return "true" if value else "false"
        case int():
            return format_duration(value) if field.endswith("_ms") else f"{value:,}"
        case RetryPolicy():
            base, most = format_duration(value.base_ms), format_duration(value.max_ms)
            return f"base {base}, factor {value.factor:g}, at most {most}"
        case RateLimit():
            return f"{value.rate:g} a second, burst {value.burst:,}"
        case _:
            return str(value)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting: its name in YAML, the value that counts, and where it comes from."""

    name: str
    value: str
    source: str
    is_default: bool


def _rows(record: TypeRecord, declaration: Declaration) -> list[SettingRow]:
    """The settings that count, those first that somebody has said something about."""
    effective, plain = record.effective, TaskType(name=record.task_type.name)
    fields = [name for name in effective.__struct_fields__ if name not in ("name", "description", "after", "options")]
    rows: list[SettingRow] = []
    for field in fields:
        value: object = getattr(effective, field)
        source = _source(record, declaration, field, is_default=value == getattr(plain, field))
        rows.append(SettingRow(setting_name(field), _shown(field, value), source or "default", not source))
    if effective.after:
        source = _source(record, declaration, "after", is_default=False)
        rows.append(SettingRow("after", ", ".join(effective.after), source, False))
    for name, option in effective.options.items():
        source = _source(record, declaration, name, is_default=False)
        rows.append(SettingRow(name, str(option), source, False))
    return sorted(rows, key=lambda row: row.is_default)


def _source(record: TypeRecord, declaration: Declaration, field: str, *, is_default: bool) -> str:
    """Where a value comes from; "" for a default. What nobody has told of was declared by some instance."""
    if getattr(record.overrides, field, None) is not None:
        return "operator's override"
    told = declaration.sources.get(setting_name(field))
    if told is not None:
        return told
    return "" if is_default else "declared by an instance"
