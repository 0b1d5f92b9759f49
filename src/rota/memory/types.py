"""The built-in task types of memory upkeep, with the settings that they have unless a configuration says otherwise."""

from __future__ import annotations

from typing import Any, Final

from rota.clock import DAY, HOUR, MINUTE, SECOND
from rota.core.task_type import TaskType, TriggerMode, setting_name
from rota.memory.cleanup import RETENTION_DAYS
from rota.memory.compression import BATCH_SIZE
from rota.memory.grouping import THRESHOLD
from rota.memory.summary import BACKFILL_DAYS

__all__ = [
    "DATA_CLEANUP",
    "EMBEDDING_REFRESH",
    "HIERARCHY_SUMMARY",
    "MEMORY_COMPRESSION",
    "MEMORY_TYPES",
    "STATISTICS_UPDATE",
    "settings_of",
]

MEMORY_COMPRESSION: Final = TaskType(
    name="memory_compression",
    description="Makes one context of those that say the same, for one user.",
    interval_ms=30 * MINUTE,
    timeout_ms=5 * MINUTE,
    # What a user did last is not forgotten: the next compression comes, an interval after the last one.
    cooldown="defer",
    options={"batch_size": BATCH_SIZE, "similarity_threshold": THRESHOLD},
)
EMBEDDING_REFRESH: Final = TaskType(
    name="embedding_refresh",
    enabled=False,
    description="Computes missing and outdated embeddings, for one user.",
    interval_ms=HOUR,
    timeout_ms=2 * MINUTE,
    cooldown="defer",
    options={"batch_size": BATCH_SIZE},
)
DATA_CLEANUP: Final = TaskType(
    name="data_cleanup",
    description="Deletes contexts that have outlived their retention.",
    trigger_mode=TriggerMode.PERIODIC,
    interval_ms=DAY,
    timeout_ms=10 * MINUTE,
    options={"retention_days": RETENTION_DAYS},
)
STATISTICS_UPDATE: Final = TaskType(
    name="statistics_update",
    description="Counts memories, and asks for upkeep that is overdue.",
    trigger_mode=TriggerMode.PERIODIC,
    interval_ms=HOUR,
    timeout_ms=2 * MINUTE,
)
HIERARCHY_SUMMARY: Final = TaskType(
    name="hierarchy_summary",
    enabled=False,
    description="Summarises days and weeks, for one user: the example of a type that an application adds.",
    interval_ms=DAY,
    timeout_ms=10 * MINUTE,
    max_retries=2,
    cooldown="defer",
    options={"backfill_days": BACKFILL_DAYS},
)

MEMORY_TYPES: Final[tuple[TaskType, ...]] = (
    MEMORY_COMPRESSION,
    EMBEDDING_REFRESH,
    DATA_CLEANUP,
    STATISTICS_UPDATE,
    HIERARCHY_SUMMARY,
)


def settings_of(task_type: TaskType) -> dict[str, Any]:
    """What a type says beyond the defaults, as a decorator takes it: durations in seconds."""
    plain = TaskType(name=task_type.name)
    given: dict[str, Any] = {}
    for field in TaskType.__struct_fields__:
        value = getattr(task_type, field)
        if field in ("name", "trigger_mode", "options") or value == getattr(plain, field):
            continue
        given[setting_name(field)] = value / SECOND if field.endswith("_ms") else value
    # The interval is said even if it is the default: a reader of the settings looks for it first.
    return {"interval": task_type.interval_ms / SECOND, **given, "options": dict(task_type.options)}
