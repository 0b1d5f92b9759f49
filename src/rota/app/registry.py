"""What one process has declared: its task types and their handlers, code and configuration brought together.

A type may be described in two places. Code says what it *is* (its trigger mode and handler, and settings that suit it);
file, environment and flags say how it is *run here*, so they win over the values in code. Only the trigger mode belongs
to the code, because the handler is written for it: a configuration that says otherwise is refused.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from rota.app.settings import sections_of
from rota.clock import SECOND
from rota.config import Config, read_config
from rota.config.model import TASKS
from rota.config.section import option_checks
from rota.core.declaration import Declaration
from rota.core.task_type import (
    OptionCheck,
    RateLimit,
    RetryPolicy,
    TaskType,
    TriggerMode,
    after_cycle,
    did_you_mean,
    setting_name,
)
from rota.errors import InvalidConfig, InvalidInput
from rota.keys import check_task_type
from rota.runtime.handler import Handler, HandlerFunction, make_handler
from rota.runtime.signature import takes_of

__all__ = ["Registry"]

_GLOBAL_MODES: Final = (TriggerMode.PERIODIC, TriggerMode.CRON, TriggerMode.INTERVAL)
_INHERITED: Final = "the top-level timezone"


class Registry:
    """The types and handlers of one process. `undeclared` holds the types that the store has not been told of yet."""

    def __init__(self, config: Config) -> None:
        self.types: dict[str, TaskType] = dict(config.tasks)
        self.handlers: dict[str, Handler] = {}
        self.undeclared: set[str] = set(self.types)
        self._config = config
        self._sections = sections_of(config)
        self._modes: dict[str, tuple[TriggerMode, str]] = {}
        self._origins: dict[str, str] = {}

    def copy(self) -> Registry:
        """The same declarations; what is declared in one of the two from now on is not known to the other one."""
        twin = Registry(self._config)
        twin.types, twin.handlers = self.types.copy(), self.handlers.copy()
        twin.undeclared = self.undeclared.copy()
        twin._modes, twin._origins = self._modes.copy(), self._origins.copy()
        return twin

    def declare(
        self,
        name: str,
        function: HandlerFunction,
        mode: TriggerMode,
        settings: Mapping[str, object],
        *,
        decorator: str,
        process: bool = False,
    ) -> TaskType:
        """A type and its handler, as a decorator gives them."""
        check_task_type(name)
        where = f"{decorator} on {name!r}"
        self._check_origin(name, function, where)
        declared = self._in_code(name, mode, settings, where)
        handler = make_handler(name, function, process=process)
        task_type = self._merged(declared, where)
        self.handlers[name] = handler
        self._modes[name] = (mode, decorator)
        self._put(task_type)
        return task_type

    def register_type(self, task_type: TaskType) -> None:
        """A type as a program builds it; it replaces what was known under its name."""
        task_type.validate(options=self._option_checks())
        mode, by = self._modes.get(task_type.name, (task_type.trigger_mode, ""))
        if mode is not task_type.trigger_mode:
            raise InvalidConfig(_contradiction(task_type.name, task_type.trigger_mode, "register_task_type", mode, by))
        self._put(task_type)

    def register_handler(self, name: str, function: HandlerFunction, mode: TriggerMode | None) -> None:
        """A handler by its type's name, called with the three ids; the type may be registered before or after."""
        handler = make_handler(check_task_type(name), function, positional=True)
        if mode is not None:
            self._set_mode(name, _trigger_mode(name, mode))
        self.handlers[name] = handler

    def declaration(self, name: str) -> Declaration:
        """What this process can tell of a type beside its settings."""
        handler = self.handlers.get(name)
        takes = None if handler is None else takes_of(handler)
        return Declaration(takes=takes, sources=self._sources(name), by=socket.gethostname()[:255])

    def _sources(self, name: str) -> dict[str, str]:
        """Where the settings of a type come from that are no defaults."""
        known, plain = self.types[name], TaskType(name=name)
        where = f"{TASKS}.{name}"
        given = {
            path.removeprefix(f"{where}."): source
            for path, source in self._config.sources.items()
            if path.startswith(f"{where}.")
        }
        in_code = {
            setting_name(field): "code"
            for field in TaskType.__struct_fields__
            if field not in ("name", "options") and getattr(known, field) != getattr(plain, field)
        }
        if name in self._modes:
            in_code["trigger_mode"] = "code"
        # Of a setting with pieces, like `retry`, those that are configured win over the code's.
        of_pieces = {path.partition(".")[0]: source for path, source in given.items()}
        return {**in_code, **dict.fromkeys(known.options, "code"), **of_pieces}

    def servable(self) -> dict[str, Handler]:
        """The handlers whose type is known."""
        return {name: handler for name, handler in self.handlers.items() if name in self.types}

    def idle_types(self) -> list[str]:
        """The enabled types that have no handler in this process."""
        return sorted(name for name, known in self.types.items() if known.enabled and name not in self.handlers)

    def unknown_types(self) -> list[str]:
        """The handlers whose type nobody has registered."""
        return sorted(self.handlers.keys() - self.types.keys())

    def followed_elsewhere(self) -> dict[str, str]:
        """The types that others here come after and that are not declared here, each with one that comes after it."""
        pairs = ((name, known.name) for known in self.types.values() for name in known.after)
        return {name: follower for name, follower in pairs if name not in self.types}

    def check(self) -> None:
        """Refuse types that wait for each other, or for types whose keys are of different kinds."""
        circle = after_cycle(self.types)
        if circle:
            raise InvalidConfig(
                f"Task types wait for each other: {' after '.join(reversed(circle))}. Take one `after` out."
            )
        for task_type in self.types.values():
            self._check_kinds(task_type)

    def _check_kinds(self, task_type: TaskType) -> None:
        kinds = {self._kind_of_key(name): name for name in task_type.after}
        if kinds.get("user") and kinds.get("global"):
            raise InvalidConfig(
                f"The type {task_type.name!r} comes after {kinds['user']!r}, which runs for each user, and after"
                f" {kinds['global']!r}, which runs for nobody in particular. They can never both complete for one key:"
                " take one of them out."
            )

    def _kind_of_key(self, name: str) -> str:
        task_type = self.types.get(name)
        if task_type is None or task_type.trigger_mode is TriggerMode.ONCE:
            return "any"
        if task_type.after:
            return self._kind_of_key(task_type.after[0])
        return "global" if task_type.trigger_mode in _GLOBAL_MODES else "user"

    def _put(self, task_type: TaskType) -> None:
        self.types[task_type.name] = task_type
        self.undeclared.add(task_type.name)

    # --- code and configuration ---

    def _check_origin(self, name: str, function: HandlerFunction, where: str) -> None:
        """Two functions under one name are a mistake; the same one again is a module that was reloaded."""
        origin = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"
        known = self._origins.setdefault(name, origin)
        if known != origin:
            raise InvalidInput(
                f"{where}: the type already has the handler {known}. Use another function name, or name='...'."
            )

    def _in_code(self, name: str, mode: TriggerMode, settings: Mapping[str, object], where: str) -> TaskType:
        """The type as the code describes it. Read like a configuration, so that there is one set of checks."""
        if "trigger_mode" in settings:
            raise InvalidInput(f"{where}: the decorator is the trigger mode ({mode}). Leave trigger_mode out.")
        # A configuration has the options beside the other settings.
        flat = {**settings, **_options(settings.get("options"), where), "options": None}
        plain = {setting: _plain(value) for setting, value in flat.items() if value is not None}
        document = {
            "timezone": self._config.timezone,
            "scheduler": {"tasks": {name: {"trigger_mode": str(mode), **plain}}},
        }
        try:
            return read_config(document, environ={}, sections=self._sections).tasks[name]
        except InvalidConfig as error:
            raise InvalidConfig(f"{where}: {error}") from None

    def _option_checks(self) -> dict[str, OptionCheck]:
        return option_checks(self._sections)

    def _merged(self, declared: TaskType, where: str) -> TaskType:
        name = declared.name
        configured = self._config.tasks.get(name)
        if configured is None:
            return declared
        if self._is_given(name, "trigger_mode") and configured.trigger_mode is not declared.trigger_mode:
            source = self._config.sources[f"{TASKS}.{name}.trigger_mode"]
            raise InvalidConfig(
                _contradiction(name, configured.trigger_mode, source, declared.trigger_mode, where.partition(" ")[0])
            )
        merged = replace(declared, **self._given_fields(configured, declared, name))
        found = merged.problems(f"{TASKS}.{name}", self._config.sources, self._option_checks())
        if found:
            raise InvalidConfig(f"{where}: {' '.join(found)}")
        return merged

    def _given_fields(self, configured: TaskType, declared: TaskType, name: str) -> dict[str, object]:
        """What file, environment or flags say about the type; `retry` and the limits of its rate piece by piece."""
        given: dict[str, object] = {}
        for field in TaskType.__struct_fields__:
            value: object = getattr(configured, field)
            if field == "options":
                given[field] = {**declared.options, **configured.options}
            elif isinstance(value, RetryPolicy | RateLimit):
                base: object = getattr(declared, field)
                pieces = self._given_pieces(value, name, field)
                given[field] = replace(base, **pieces) if isinstance(base, RetryPolicy | RateLimit) else value
            elif field not in ("name", "trigger_mode") and self._is_given(name, setting_name(field)):
                given[field] = value
        return given

    def _given_pieces(self, value: msgspec.Struct, name: str, field: str) -> dict[str, object]:
        return {
            piece: getattr(value, piece)
            for piece in value.__struct_fields__
            if self._is_given(name, f"{field}.{setting_name(piece)}")
        }

    def _is_given(self, name: str, setting: str) -> bool:
        source = self._config.sources.get(f"{TASKS}.{name}.{setting}")
        return source is not None and source != _INHERITED

    def _set_mode(self, name: str, mode: TriggerMode) -> None:
        self._modes[name] = (mode, "register_handler")
        known = self.types.get(name)
        if known is None or known.trigger_mode is mode:
            return
        source = self._config.sources.get(f"{TASKS}.{name}.trigger_mode")
        if source is not None or name not in self._config.tasks:
            raise InvalidConfig(
                _contradiction(name, known.trigger_mode, source or "register_task_type", mode, "register_handler")
            )
        changed = replace(known, trigger_mode=mode)
        changed.validate(f"{TASKS}.{name}", self._option_checks())
        self._put(changed)


def _contradiction(name: str, one: TriggerMode, one_by: str, other: TriggerMode, other_by: str) -> str:
    return (
        f"{TASKS}.{name}.trigger_mode is '{one}' ({one_by}), but the handler is declared for '{other}' ({other_by})."
        " Remove the setting, or declare the handler for it."
    )


def _trigger_mode(name: str, mode: object) -> TriggerMode:
    try:
        return TriggerMode(mode)
    except ValueError:
        hint = did_you_mean(mode, [known.value for known in TriggerMode])
        raise InvalidInput(f"register_handler of {name!r} was given the trigger_mode {mode!r}. {hint}") from None


def _options(options: object, where: str) -> Mapping[str, object]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InvalidConfig(f"{where}: options is {options!r}. Use a mapping, like options={{'batch_size': 50}}.")
    return cast("Mapping[str, object]", options)


def _plain(value: object) -> object:
    """A value as a configuration could have it: durations in seconds, structures as mappings, texts taken literally."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, RetryPolicy | RateLimit):
        return {setting_name(name): _unit(name, getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        pairs: Mapping[object, object] = value  # pyright: ignore[reportUnknownVariableType] -- of what, the checks will say
        return {key: _plain(item) for key, item in pairs.items()}
    return list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] -- the same


def _unit(name: str, value: float) -> float:
    return value / SECOND if name.endswith("_ms") else value
