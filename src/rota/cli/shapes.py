"""How the engine's values look from outside, where the Python face has no value for them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from rota.app.views import state_words
from rota.clock import format_duration
from rota.core.task_type import TaskType, TriggerMode, setting_name
from rota.stores.base import Counts, TypeRecord

__all__ = ["type_shape"]


def type_shape(record: TypeRecord, counts: Counts, *, source: str) -> dict[str, object]:
    """A type: what it is, whether it runs, and how many tasks it has. `source` says who knows it."""
    return {
        "name": record.task_type.name,
        "enabled": record.enabled,
        "override": record.overrides.enabled,
        "overrides": msgspec.to_builtins(record.overrides),
        "state": state_words(record),
        "source": source,
        "trigger": _words(record.task_type),
        "settings": _settings(record.effective),
        "counts": msgspec.to_builtins(counts),
    }


def _settings(task_type: TaskType) -> dict[str, object]:
    """The settings by their names in YAML; durations as they are written there."""
    return {
        setting_name(name): _setting(name, getattr(task_type, name))
        for name in task_type.__struct_fields__
        if name != "name"
    }


def _setting(name: str, value: object) -> object:
    if name.endswith("_ms") and isinstance(value, int):
        return format_duration(value)
    if isinstance(value, msgspec.Struct):
        return {setting_name(below): _setting(below, getattr(value, below)) for below in value.__struct_fields__}
    return value.value if isinstance(value, Enum) else msgspec.to_builtins(value)


def _words(task_type: TaskType) -> str:
    words: Mapping[TriggerMode, str] = {
        TriggerMode.USER_ACTIVITY: f"{format_duration(task_type.interval_ms)} after activity",
        TriggerMode.PERIODIC: f"every {format_duration(task_type.interval_ms)}",
        TriggerMode.INTERVAL: f"every {format_duration(task_type.interval_ms)}",
        TriggerMode.CRON: f"{task_type.cron} ({task_type.timezone})",
        TriggerMode.AFTER: f"after {', '.join(task_type.after)}",
    }
    return words.get(task_type.trigger_mode, "by hand or by schedule")
