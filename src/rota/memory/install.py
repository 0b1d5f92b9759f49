"""Bringing memory upkeep into an app: a `Memory`, and the built-in types with their handlers.

    memory = install_memory(app)
    await memory.push(ChatPush(messages=[Message(content="...")], user_id="u1"))

`scheduler.tasks` and `memory` in the app's configuration change the settings.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, Protocol, cast
from weakref import WeakKeyDictionary, ref

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
from rota.memory.section import MEMORY_SECTION, MemoryConfig
from rota.memory.types import MEMORY_COMPRESSION, MEMORY_TYPES, settings_of
from rota.runtime.belonging import MEMORY, Belonging

__all__ = ["App", "install_memory", "memory_of", "touched_types"]

_OVERDUE_INTERVALS: Final = 3
"""Upkeep that is late by so many intervals is asked for again."""


class App(Protocol):
    """What of `Rota` is needed here; memory lies below it."""

    @property
    def config(self) -> Config: ...

    @property
    def declared(self) -> Mapping[str, TaskType]: ...

    @property
    def before_closing(self) -> list[Callable[[], Awaitable[None]]]: ...

    async def database(self) -> Database: ...

    async def database_of(self, part: str, *, settle: bool = False) -> Database: ...

    @property
    def belonging(self) -> Belonging: ...

    async def touch(
        self, task_type: str, user_id: str, device_id: str | None = None, agent_id: str | None = None
    ) -> object: ...


_INSTALLED: Final[WeakKeyDictionary[App, Memory]] = WeakKeyDictionary()
"""The memory of each app: whoever serves an app finds the one that it was given in code."""


def install_memory(app: App, *, embedder: Embedder | None = None, merger: Merger | None = None) -> Memory:
    """Declare the built-in types with an app, and give the memory that they keep up."""
    memory = _INSTALLED[app] = _made(app, app.config, embedder, merger)
    interval_ms = _effective(app.config, MEMORY_COMPRESSION).interval_ms
    handlers = handlers_of(memory, overdue_ms=_OVERDUE_INTERVALS * interval_ms)
    app.belonging.need(MEMORY, [task_type.name for task_type in MEMORY_TYPES])
    for task_type in MEMORY_TYPES:
        _declare(app, task_type, handlers[task_type.name])
    return memory


def memory_of(app: App, config: Config | None = None) -> Memory:
    """The memory that was installed with an app; else one by its configuration, or by another that knows better."""
    found = _INSTALLED.get(app)
    if found is None:
        found = _INSTALLED[app] = _made(app, config or app.config, None, None)
    return found


def touched_types(app: App) -> list[str]:
    """The types that a push touches: every user_activity type that the app has declared and not switched off."""
    return [
        name
        for name, task_type in app.declared.items()
        if task_type.enabled and task_type.trigger_mode is TriggerMode.USER_ACTIVITY
    ]


def _made(app: App, config: Config, embedder: Embedder | None, merger: Merger | None) -> Memory:
    given = MEMORY_SECTION.of(config)
    kind = cast('Literal["hashing", "sentence-transformers"]', given.embedder)
    # Weakly, for the table above: what it holds must not hold the app.
    held = ref(app)

    def alive() -> App:
        found = held()
        assert found is not None, "a memory is used as long as its app is"
        return found

    memory = Memory(
        lambda: alive().database(),
        lambda task_type, user_id, device_id, agent_id: alive().touch(task_type, user_id, device_id, agent_id),
        lambda: touched_types(alive()),
        embedder=embedder or embedder_for(kind, given.model if kind != "hashing" else None),
        merger=merger or _merger_for(given),
        settings=_settings_for(config),
        keys=config.user_key,
        changing=lambda: alive().database_of(MEMORY, settle=True),
    )
    # What was captured is answered for; the scheduler hears of it before the app lets go of its store.
    app.before_closing.append(memory.drain)
    return memory


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
