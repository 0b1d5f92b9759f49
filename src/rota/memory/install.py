"""Bringing memory upkeep into an app: a `Memory`, and the built-in types with their handlers.

    memory = install_memory(app)
    await memory.push(ChatPush(messages=[Message(content="...")], user_id="u1"))

`scheduler.tasks` and `memory` in the app's configuration change the settings.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, Protocol, cast

from rota.config import Config
from rota.config.model import TASKS
from rota.core.task_type import Option, TaskType, TriggerMode
from rota.database import Database
from rota.errors import InvalidConfig
from rota.memory.embedding import Embedder, embedder_for
from rota.memory.handlers import handlers_of
from rota.memory.llm import LlmMerger
from rota.memory.memory import Memory, MemorySettings
from rota.memory.merging import Merger, RuleMerger
from rota.memory.types import MEMORY_COMPRESSION, MEMORY_TYPES, settings_of

__all__ = ["App", "install_memory", "memory_of", "touched_types"]

_OVERDUE_INTERVALS: Final = 3
"""Upkeep that is late by so many intervals is asked for again."""


class App(Protocol):
    """What of `Rota` is needed here; memory lies below it."""

    @property
    def config(self) -> Config: ...

    async def database(self) -> Database: ...

    async def touch(
        self, task_type: str, user_id: str, device_id: str | None = None, agent_id: str | None = None
    ) -> object: ...


def install_memory(app: App, *, embedder: Embedder | None = None, merger: Merger | None = None) -> Memory:
    """Declare the built-in types with an app, and give the memory that they keep up."""
    memory = memory_of(app, embedder=embedder, merger=merger)
    interval_ms = _effective(app.config, MEMORY_COMPRESSION).interval_ms
    handlers = handlers_of(memory, overdue_ms=_OVERDUE_INTERVALS * interval_ms)
    for task_type in MEMORY_TYPES:
        _declare(app, task_type, handlers[task_type.name])
    return memory


def memory_of(app: App, *, embedder: Embedder | None = None, merger: Merger | None = None) -> Memory:
    """The memory of an app, by its configuration; it declares nothing."""
    config = app.config
    kind = cast('Literal["hashing", "sentence-transformers"]', config.memory_embedder)
    return Memory(
        app.database,
        app.touch,
        lambda: touched_types(config),
        embedder=embedder or embedder_for(kind, config.memory_model if kind != "hashing" else None),
        merger=merger or _merger_for(config),
        settings=_settings_for(config),
        keys=config.user_key,
    )


def touched_types(config: Config) -> list[str]:
    """The types that a push touches: every user_activity type of memory and of the configuration that is enabled."""
    own = [_effective(config, task_type) for task_type in MEMORY_TYPES]
    names = {task_type.name for task_type in own}
    known = [*own, *(task_type for name, task_type in config.tasks.items() if name not in names)]
    return [one.name for one in known if one.enabled and one.trigger_mode is TriggerMode.USER_ACTIVITY]


def _declare(app: Any, task_type: TaskType, handler: Callable[..., Awaitable[object]]) -> None:
    """With the app's decorators, so that a configuration wins over what is said here, setting by setting."""
    settings = settings_of(task_type)
    if task_type.trigger_mode is TriggerMode.PERIODIC:
        app.every(settings.pop("interval"), name=task_type.name, **settings)(handler)
    else:
        app.on_activity(name=task_type.name, **settings)(handler)


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
    options: dict[str, Option] = {}
    for task_type in MEMORY_TYPES:
        # A batch size is said for each type; that of compression counts for all.
        options = {**_effective(config, task_type).options, **options}
    return MemorySettings(
        anonymous=cast('Literal["default", "reject"]', config.memory_anonymous),
        threshold=float(options["similarity_threshold"]),
        batch_size=int(options["batch_size"]),
        retention_days=int(options["retention_days"]),
        backfill_days=int(options["backfill_days"]),
        timezone=config.timezone,
    )


def _merger_for(config: Config, environ: Mapping[str, str] = os.environ) -> Merger:
    if not config.memory_llm_merge:
        return RuleMerger()
    url, key = environ.get("OPENAI_BASE_URL"), environ.get("OPENAI_API_KEY")
    if not config.memory_model or not url:
        raise InvalidConfig(
            "memory.llm_merge is on, but nobody says which model to ask, or where. Set memory.model and the environment"
            " variable OPENAI_BASE_URL (and OPENAI_API_KEY, if the server wants one)."
        )
    return LlmMerger(url, config.memory_model, key)
