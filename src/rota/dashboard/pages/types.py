"""One task type: what is configured, what an operator has set over it, who runs it, how it does."""

from __future__ import annotations

import asyncio
import json
import shlex

from rota.app.overview import overview
from rota.clock import format_duration
from rota.core.task_type import RateLimit, RetryPolicy, TaskType, TriggerMode, setting_name
from rota.dashboard import actions
from rota.dashboard.view import Page, View
from rota.dashboard.words import NOTHING
from rota.errors import UnknownTaskType
from rota.stores.base import LIMITS, TypeRecord

__all__ = ["show"]


async def show(view: View, task_type: str) -> Page:
    seen, records = await asyncio.gather(overview(view.app, 60), view.app.types())
    record = next((each for each in records if each.task_type.name == task_type), None)
    if record is None:
        raise UnknownTaskType(f"There is no type {task_type!r}. The overview lists those that the store knows.")
    settings = record.effective
    return Page(
        "type.html",
        task_type,
        {
            "record": record,
            "settings": settings,
            "slots": _slots(settings),
            "rows": _rows(record.task_type),
            "one": next(each for each in seen.types if each.task_type == task_type),
            "instances": [each for each in seen.instances if task_type in each.types],
            "actions": actions.of_type(record),
            "limits": _limits(view, record),
            "is_activity": settings.trigger_mode is TriggerMode.USER_ACTIVITY,
        },
        concerns=task_type,
        within="overview",
    )


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


def _rows(task_type: TaskType) -> list[tuple[str, str]]:
    """The settings by the names that they have in YAML, as people write them."""
    fields = [name for name in task_type.__struct_fields__ if name not in ("name", "description", "after", "options")]
    rows = [(setting_name(field), _shown(field, getattr(task_type, field))) for field in fields]
    rows.append(("after", ", ".join(task_type.after) or NOTHING))
    return rows + [(name, str(value)) for name, value in task_type.options.items()]
