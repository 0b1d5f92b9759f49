"""Making a memory from a configuration, and declaring the built-in types with their handlers.

`scheduler.tasks` and `memory` in the app's configuration change the settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Literal, cast

from rota.config import Config
from rota.config.model import TASKS
from rota.core.task_type import Option, TaskType, TriggerMode
from rota.errors import InvalidConfig
from rota.memory.embedding import Embedder, embedder_for
from rota.memory.handlers import handlers_of
from rota.memory.llm import LlmMerger
from rota.memory.memory import Memory, MemorySettings
from rota.memory.merging import Merger, RuleMerger
from rota.memory.section import MEMORY_SECTION, MemoryConfig
from rota.memory.types import MEMORY_COMPRESSION, MEMORY_TYPES, settings_of
from rota.part import PartHost

__all__ = ["declare_types", "make_memory", "touched_types"]

MEMORY: Final = "memory"
_OVERDUE_INTERVALS: Final = 3
"""Upkeep that is late by so many intervals is asked for again."""


def declare_types(host: PartHost, memory: Memory) -> None:
    """Declare the built-in types with a host, to be served by this memory."""
    interval_ms = _effective(host.config, MEMORY_COMPRESSION).interval_ms
    handlers = handlers_of(memory, overdue_ms=_OVERDUE_INTERVALS * interval_ms)
    host.database_owner.register(MEMORY, [task_type.name for task_type in MEMORY_TYPES])
    for task_type in MEMORY_TYPES:
        # Declared as by a decorator, so that a configuration wins over what is said here, setting by setting.
        name, mode = task_type.name, task_type.trigger_mode
        host.declare(name, handlers[name], mode, settings_of(task_type), decorator="install_memory")


def touched_types(host: PartHost) -> list[str]:
    """The types that a push touches: every user_activity type that the app has declared and not switched off."""
    return [
        name
        for name, task_type in host.declared.items()
        if task_type.enabled and task_type.trigger_mode is TriggerMode.USER_ACTIVITY
    ]


def make_memory(
    host: PartHost, config: Config | None = None, *, embedder: Embedder | None = None, merger: Merger | None = None
) -> Memory:
    """The memory of a host, by its configuration or by another that knows better."""
    config = config or host.config
    given = MEMORY_SECTION.of(config)
    kind = cast('Literal["hashing", "sentence-transformers"]', given.embedder)
    made = merger or _merger_for(given)
    memory = Memory(
        host.database,
        host.touch,
        lambda: touched_types(host),
        embedder=embedder or embedder_for(kind, given.model if kind != "hashing" else None),
        merger=made,
        settings=_settings_for(config),
        keys=config.user_key,
        changing=lambda: host.database_of(MEMORY, settle=True),
    )
    # What was captured is answered for; the scheduler hears of it before the app lets go of its store.
    host.before_closing.append(memory.drain)
    if merger is None and isinstance(made, LlmMerger):
        host.before_closing.append(made.close)
    return memory


def _effective(config: Config, task_type: TaskType) -> TaskType:
    """A built-in type with what the configuration says about it, as far as it matters here."""
    given = config.tasks.get(task_type.name)
    if given is None:
        return task_type
    path = f"{TASKS}.{task_type.name}"
    return TaskType(
        name=task_type.name,
        enabled=given.enabled if f"{path}.enabled" in config.sources else task_type.enabled,
        trigger_mode=task_type.trigger_mode,
        interval_ms=given.interval_ms if f"{path}.interval" in config.sources else task_type.interval_ms,
        options={**task_type.options, **given.options},
    )


def _settings_for(config: Config) -> MemorySettings:
    given = MEMORY_SECTION.of(config)
    options: dict[str, Option] = {}
    for task_type in MEMORY_TYPES:
        # A batch size is said for each type; that of compression counts for all.
        options = {**_effective(config, task_type).options, **options}
    return MemorySettings(
        anonymous=cast('Literal["default", "reject"]', given.anonymous),
        threshold=float(options["similarity_threshold"]),
        batch_size=int(options["batch_size"]),
        settling_ms=given.settling_ms,
        retention_days=int(options["retention_days"]),
        backfill_days=int(options["backfill_days"]),
        timezone=config.timezone,
    )


def _merger_for(given: MemoryConfig, environ: Mapping[str, str] = os.environ) -> Merger:
    if given.merge == "rules":
        return RuleMerger()
    url = given.llm_url or environ.get("OPENAI_BASE_URL")
    if not given.llm_model or not url:
        raise InvalidConfig(
            "memory.merge is 'llm', but nobody says which model to ask, or where. Set memory.llm_model and"
            " memory.llm_url or OPENAI_BASE_URL (and memory.llm_key or OPENAI_API_KEY, if the server wants one)."
        )
    return LlmMerger(url, given.llm_model, given.llm_key or environ.get("OPENAI_API_KEY"))
