"""From the engine's values to what goes out, where the Python face has no value for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec

from rota.app.views import alive, is_alive, state_of
from rota.clock import Instant, format_duration, isoformat
from rota.core.task_type import TaskType, TriggerMode, setting_name
from rota.stores.base import Counts, Erasure, Instance, TypeRecord

__all__ = [
    "erasure_shape",
    "instance_shape",
    "queue_shape",
    "settings_shape",
    "trigger_words",
    "type_shape",
]


def type_shape(record: TypeRecord, counts: Counts, instances: Iterable[Instance], now: Instant) -> dict[str, object]:
    """A type as `TypeModel` describes it."""
    name = record.task_type.name
    return {
        "name": name,
        "description": record.task_type.description,
        "trigger_mode": record.task_type.trigger_mode.value,
        "trigger": trigger_words(record.task_type),
        "enabled": record.enabled,
        "accepts": record.accepts,
        "runs": record.runs,
        "config": settings_shape(record.task_type),
        "overrides": msgspec.to_builtins(record.overrides),
        "effective": settings_shape(record.effective),
        "counts": msgspec.structs.asdict(counts),
        "instances": [each.beat.instance for each in alive(instances, now, name)],
    }


def settings_shape(task_type: TaskType) -> dict[str, object]:
    """The settings by their names in YAML; durations as they are written there."""
    names = [name for name in task_type.__struct_fields__ if name != "name"]
    return {setting_name(name): _setting(name, getattr(task_type, name)) for name in names}


def _setting(name: str, value: object) -> object:
    if name.endswith("_ms") and isinstance(value, int):
        return format_duration(value)
    if isinstance(value, msgspec.Struct):
        return {setting_name(below): _setting(below, getattr(value, below)) for below in value.__struct_fields__}
    return value.value if isinstance(value, Enum) else msgspec.to_builtins(value)


def trigger_words(task_type: TaskType) -> str:
    """What makes a task of the type due, in words."""
    every = format_duration(task_type.interval_ms)
    words: Mapping[TriggerMode, str] = {
        TriggerMode.USER_ACTIVITY: f"{every} after activity",
        TriggerMode.PERIODIC: f"every {every}",
        TriggerMode.INTERVAL: f"every {every}",
        TriggerMode.CRON: f"{task_type.cron} ({task_type.timezone})",
        TriggerMode.AFTER: f"after {', '.join(task_type.after)}",
    }
    return words.get(task_type.trigger_mode, "by hand or by schedule")


def instance_shape(instance: Instance, now: Instant) -> dict[str, object]:
    """An instance as `InstanceModel` describes it."""
    beat = instance.beat
    return {
        "instance": beat.instance,
        "host": beat.host,
        "pid": beat.pid,
        "started_at": isoformat(beat.started_at),
        "seen_at": isoformat(instance.seen_at),
        "is_alive": is_alive(instance, now),
        "running": beat.running,
        "types": sorted(beat.types),
        "lease_ms": beat.lease_ms,
    }


def queue_shape(record: TypeRecord, counts: Counts, due_at: Instant | None, handlers: int, now: Instant) -> object:
    """A queue as `QueueModel` describes it."""
    effective = record.effective
    return {
        "type": record.task_type.name,
        "depth": counts.pending,
        "running": counts.running,
        "oldest_due_at": isoformat(due_at),
        "late_ms": 0 if due_at is None else max(0, now - due_at),
        "state": state_of(record).value,
        "limits": {
            "max_pending": effective.max_pending,
            "concurrency": effective.concurrency,
            "rate_limit": None if effective.rate_limit is None else msgspec.structs.asdict(effective.rate_limit),
        },
        "handlers": handlers,
    }


def erasure_shape(erasure: Erasure) -> dict[str, object]:
    """An erasure as `ErasureModel` describes it."""
    times = {"asked_at": isoformat(erasure.asked_at), "done_at": isoformat(erasure.done_at)}
    return {**msgspec.structs.asdict(erasure), **times}
