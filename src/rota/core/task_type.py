"""The settings of one task type: the single table of defaults, used by code, YAML and every store alike.

`TaskType` is what Rota works with. `TaskConfig` is the smaller face of it that the scheduler interface names; its
defaults are read from `TaskType`, so there is one truth. YAML writes a duration without its unit: `interval_ms` is
`interval`.
"""

from __future__ import annotations

import difflib
import graphlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache
from typing import Final, Literal, TypeVar

import msgspec

from rota.clock import DAY, MINUTE, SECOND, Millis, format_duration, parse_duration
from rota.codec import warmed
from rota.errors import InvalidConfig, InvalidInput
from rota.keys import check_task_type

__all__ = [
    "Option",
    "OptionCheck",
    "RateLimit",
    "RetryPolicy",
    "TaskConfig",
    "TaskType",
    "TriggerMode",
    "after_cycle",
    "decode_task_type",
    "did_you_mean",
    "encode_task_type",
    "setting_name",
]

Option = bool | int | float | str
"""A setting that only the handler of a type understands."""

OptionCheck = Callable[[Option], str | None]
"""What to do about the value of an option; None if it is fine. Whoever brings the handler knows."""

_LONGEST: Final[Millis] = 10 * 366 * DAY


class TriggerMode(StrEnum):
    """What makes a task of the type due."""

    USER_ACTIVITY = "user_activity"
    PERIODIC = "periodic"
    CRON = "cron"
    INTERVAL = "interval"
    ONCE = "once"
    AFTER = "after"


class RateLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A token bucket over all instances: `rate` a second, at most `burst` at once.

    As `rate_limit` it counts what tasks cost (one each, unless told), as `start_limit` how many start.
    """

    rate: float
    burst: int = 1


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long a failed task waits: full jitter over base x factor^(errors - 1), capped at max."""

    base_ms: Millis = 10 * SECOND
    factor: float = 2.0
    max_ms: Millis = 60 * MINUTE


class TaskType(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is configured per task type."""

    name: str
    enabled: bool = True
    description: str = ""
    trigger_mode: TriggerMode = TriggerMode.USER_ACTIVITY
    interval_ms: Millis = 30 * MINUTE
    cron: str | None = None
    timezone: str = "UTC"
    after: tuple[str, ...] = ()
    timeout_ms: Millis = 5 * MINUTE
    task_ttl_ms: Millis = 120 * MINUTE
    dead_ttl_ms: Millis = 30 * DAY
    max_retries: int = 3
    mode: Literal["delay", "debounce"] = "delay"
    max_wait_ms: Millis | None = None
    cooldown: Literal["skip", "defer"] = "skip"
    on_busy: Literal["rerun", "ignore"] = "rerun"
    priority: int = 5
    aging_ms: Millis = 30 * SECOND
    max_pending: int = 1_000_000
    concurrency: int | None = None
    slots: Literal["shared", "own"] = "shared"
    rate_limit: RateLimit | None = None
    start_limit: RateLimit | None = None
    misfire: Literal["latest", "all", "skip"] = "latest"
    overlap: Literal["skip", "queue"] = "skip"
    jitter_ms: Millis = 0
    grace_ms: Millis | None = None
    run_on_start: bool = True
    retry: RetryPolicy = RetryPolicy()
    version: int = 0
    options: Mapping[str, Option] = {}

    @property
    def max_wait(self) -> Millis:
        """How long debouncing may put a task off, from the first activity: as given, or 4 x interval."""
        return 4 * self.interval_ms if self.max_wait_ms is None else self.max_wait_ms

    def problems(
        self,
        where: str = "",
        sources: Mapping[str, str] | None = None,
        options: Mapping[str, OptionCheck] | None = None,
    ) -> list[str]:
        """Everything that is impossible in these settings, one sentence each: path, value, what to do.

        `where` is the path of the type, `sources` says where a value at a path came from. `options` are all those that
        a handler understands; without them only what holds for every option is checked.
        """
        where = where or f"tasks.{self.name}"
        wrong = list(_wrong_types(self)) or [*_wrong_settings(self), *_wrong_options(self, options)]
        return [_sentence(where, setting, value, advice, sources or {}) for setting, value, advice in wrong]

    def validate(self, where: str = "", options: Mapping[str, OptionCheck] | None = None) -> None:
        """Raise `InvalidConfig` with every problem, if there is one."""
        found = self.problems(where, options=options)
        if found:
            raise InvalidConfig(" ".join(found))


def setting_name(field: str) -> str:
    """The name of a field in YAML: a duration is written without its unit."""
    return field.removesuffix("_ms")


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """What was probably meant, else what there is to choose from, as the last sentence of a message."""
    names = sorted(known)
    close = difflib.get_close_matches(str(word)[:100], names, n=1, cutoff=0.6)
    return f"Did you mean {close[0]!r}?" if close else f"Use one of: {', '.join(names)}."


def after_cycle(types: Mapping[str, TaskType]) -> list[str]:
    """A chain of `after` that comes back to its start (first name = last name), or nothing."""
    graph = {name: task_type.after for name, task_type in types.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        # The second argument is the cycle: that is the documented way to get at it.
        return [str(name) for name in error.args[1]]
    return []


def encode_task_type(task_type: TaskType) -> str:
    """JSON with every field, so that a script in the store reads policy without knowing the defaults."""
    return msgspec.json.encode(task_type).decode()


_decode = warmed(
    msgspec.json.Decoder(TaskType),
    '{"name":"t","rate_limit":{"rate":1.0,"burst":1},"retry":{"base_ms":1,"factor":2.0,"max_ms":1},"slots":"own"}',
).decode


@lru_cache(maxsize=1_024)
def decode_task_type(text: str) -> TaskType:
    """The settings in a store's record. Fields of a newer version are ignored, missing ones get their defaults."""
    try:
        return _decode(text)
    except msgspec.DecodeError as error:
        raise InvalidConfig(
            f"The stored settings of a task type cannot be read: {error}. Register the type again."
        ) from error


# --- rules ---------------------------------------------------------------------------------------------------------

_Wrong = tuple[str, object, str]

_MAX_OPTIONS: Final = 64
_OPTION_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_OWN_SETTINGS: Final = frozenset(map(setting_name, TaskType.__struct_fields__))

_GRID = (TriggerMode.PERIODIC, TriggerMode.INTERVAL)

# (setting, what must hold, what to do otherwise)
_RULES: Final[tuple[tuple[str, Callable[[TaskType], bool], str], ...]] = (
    (
        "interval_ms",
        lambda t: t.trigger_mode not in _GRID or t.interval_ms >= SECOND,
        "The shortest grid is one second. Use 1 or more.",
    ),
    ("timeout_ms", lambda t: t.timeout_ms > 0, "A run needs some time. Use something like 300 or '5m'."),
    ("max_retries", lambda t: 0 <= t.max_retries <= 100, "Use 0 (never retry) to 100."),
    (
        "max_wait_ms",
        lambda t: t.max_wait_ms is None or t.max_wait_ms >= t.interval_ms,
        "It must not be shorter than interval. Raise it, or leave it out for 4 x interval.",
    ),
    ("priority", lambda t: 0 <= t.priority <= 10, "Use 0 (last) to 10 (first); 5 is normal."),
    ("max_pending", lambda t: 1 <= t.max_pending <= 1_000_000_000, "Use 1 to 1000000000."),
    (
        "concurrency",
        lambda t: t.concurrency is None or 1 <= t.concurrency <= 10_000,
        "Use 1 to 10000, leave it out for max_concurrent, or set enabled: false to stop the type.",
    ),
    (
        "jitter_ms",
        lambda t: t.jitter_ms == 0 or t.trigger_mode not in _GRID or t.jitter_ms < t.interval_ms,
        "It must be shorter than interval, or fires would change places.",
    ),
    ("version", lambda t: 0 <= t.version < 2**53, "Use a whole number from 0; count it up with each change."),
    (
        "description",
        lambda t: len(t.description) <= 1_000 and _is_text(t.description),
        "Use up to 1000 characters of UTF-8.",
    ),
    (
        "cron",
        lambda t: (t.trigger_mode is TriggerMode.CRON) == bool(t.cron),
        "An expression and trigger_mode: cron belong together. Use something like cron: '0 9 * * 1-5'.",
    ),
    (
        "after",
        lambda t: (t.trigger_mode is TriggerMode.AFTER) == bool(t.after),
        "Type names and trigger_mode: after belong together. Use something like after: [memory_compression].",
    ),
    (
        "after",
        lambda t: t.name not in t.after,
        "A type cannot come after itself. Take it out.",
    ),
    (
        "after",
        lambda t: len(set(t.after)) == len(t.after) <= 32,
        "Name each type once, at most 32.",
    ),
)


def _wrong_types(task_type: TaskType) -> Iterator[_Wrong]:
    """A struct believes what its maker hands in; the first value of a wrong type ends the checks."""
    for field in msgspec.structs.fields(TaskType):
        value: object = getattr(task_type, field.name)
        try:
            msgspec.convert(msgspec.to_builtins(value), field.type)
        except (msgspec.ValidationError, TypeError) as error:
            yield field.name, value, f"{error}."


def _wrong_settings(task_type: TaskType) -> Iterator[_Wrong]:
    yield from _wrong_names(task_type)
    yield from _wrong_durations(task_type)
    for setting, holds, advice in _RULES:
        if not holds(task_type):
            yield setting, getattr(task_type, setting), advice
    yield from _wrong_limits(task_type)


def _wrong_names(task_type: TaskType) -> Iterator[_Wrong]:
    for setting, names in (("name", (task_type.name,)), ("after", task_type.after)):
        for name in names:
            try:
                check_task_type(name)
            except InvalidInput as error:
                yield setting, name, str(error)


def _wrong_durations(task_type: TaskType) -> Iterator[_Wrong]:
    owners = (("", task_type), ("retry.", task_type.retry))
    for prefix, owner in owners:
        for field in owner.__struct_fields__:
            value: Millis | None = getattr(owner, field) if field.endswith("_ms") else None
            if value is not None and not 0 <= value <= _LONGEST:
                yield prefix + field, f"{value} ms", "Use a duration from 0 to 10 years, like 1800 or '30m'."


def _wrong_limits(task_type: TaskType) -> Iterator[_Wrong]:
    retry = task_type.retry
    if not 1 <= retry.factor <= 100:
        yield "retry.factor", retry.factor, "Use 1 (always the same wait) to 100."
    if retry.max_ms < retry.base_ms:
        yield "retry.max_ms", retry.max_ms, "It must not be shorter than retry.base."
    for setting, limit in (("rate_limit", task_type.rate_limit), ("start_limit", task_type.start_limit)):
        if limit and not (math.isfinite(limit.rate) and limit.rate > 0):
            yield f"{setting}.rate", limit.rate, "Use starts per second, above 0, like 0.5 or 10."
        if limit and not 1 <= limit.burst <= 1_000_000:
            yield f"{setting}.burst", limit.burst, "Use 1 to 1000000."


def _wrong_options(task_type: TaskType, known: Mapping[str, OptionCheck] | None) -> Iterator[_Wrong]:
    if len(task_type.options) > _MAX_OPTIONS:
        yield "options", len(task_type.options), f"A type has at most {_MAX_OPTIONS} options."
    for name, value in task_type.options.items():
        if not _OPTION_NAME.fullmatch(name) or name in _OWN_SETTINGS:
            yield name, value, "Use another name: up to 64 small letters, digits and '_', and no setting of every type."
        elif known is not None and name not in known:
            yield name, value, f"There is no such option. {did_you_mean(name, known)}"
        else:
            advice = _wrong_option(value) if known is None else known[name](value)
            if advice is not None:
                yield name, value, advice


def _wrong_option(value: Option) -> str | None:
    if isinstance(value, str):
        return None if len(value) <= 1_000 and _is_text(value) else "Use up to 1000 characters of UTF-8."
    return None if math.isfinite(value) else "Use a finite number."


def _is_text(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeError:
        return False


def _sentence(where: str, field: str, value: object, advice: str, sources: Mapping[str, str]) -> str:
    path = f"{where}.{setting_name(field)}"
    if field.endswith("_ms") and isinstance(value, int):
        shown = format_duration(value)
    elif value is None or value == ():
        shown = "not set"
    else:
        shown = repr(str(value) if isinstance(value, StrEnum) else value)
    source = f" ({sources[path]})" if path in sources else ""
    return f"{path} is {shown}{source}. {advice}"


# --- the scheduler interface's face ----------------------------------------------------------------------------------

_DEFAULT: Final = TaskType(name="default")

_Value = TypeVar("_Value", bool, int, str)


@dataclass
class TaskConfig:
    """A task type as the scheduler interface knows it: durations are whole seconds."""

    name: str
    enabled: bool = _DEFAULT.enabled
    trigger_mode: TriggerMode = _DEFAULT.trigger_mode
    interval: int = _DEFAULT.interval_ms // SECOND
    timeout: int = _DEFAULT.timeout_ms // SECOND
    task_ttl: int = _DEFAULT.task_ttl_ms // SECOND
    max_retries: int = _DEFAULT.max_retries
    description: str = _DEFAULT.description

    def to_dict(self) -> dict[str, str | int | bool]:
        """Plain values, with the mode as its text."""
        return {
            "name": self.name,
            "enabled": self.enabled,
            "trigger_mode": _trigger_mode(self.trigger_mode).value,
            "interval": self.interval,
            "timeout": self.timeout,
            "task_ttl": self.task_ttl,
            "max_retries": self.max_retries,
            "description": self.description,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> TaskConfig:
        """From plain values or from texts, as a Redis hash gives them ("true", "1800"). Unknown names are refused."""
        known = {field.name for field in fields(cls)}
        for name in data:
            if name not in known:
                raise InvalidConfig(f"A TaskConfig has no setting {name!r}. {did_you_mean(name, known)}")
        if "name" not in data:
            raise InvalidConfig("A TaskConfig needs a name. Add one, like 'memory_compression'.")
        return cls(
            name=_read(data, "name", ""),
            enabled=_read(data, "enabled", _DEFAULT.enabled),
            trigger_mode=_trigger_mode(data.get("trigger_mode", _DEFAULT.trigger_mode)),
            interval=_seconds(data, "interval", _DEFAULT.interval_ms),
            timeout=_seconds(data, "timeout", _DEFAULT.timeout_ms),
            task_ttl=_seconds(data, "task_ttl", _DEFAULT.task_ttl_ms),
            max_retries=_read(data, "max_retries", _DEFAULT.max_retries),
            description=_read(data, "description", _DEFAULT.description),
        )

    def to_task_type(self) -> TaskType:
        """The same settings with Rota's defaults for the rest."""
        return TaskType(
            name=self.name,
            enabled=self.enabled,
            description=self.description,
            trigger_mode=_trigger_mode(self.trigger_mode),
            interval_ms=self.interval * SECOND,
            timeout_ms=self.timeout * SECOND,
            task_ttl_ms=self.task_ttl * SECOND,
            max_retries=self.max_retries,
        )

    @classmethod
    def from_task_type(cls, task_type: TaskType) -> TaskConfig:
        """What of a type this face can say. Parts of a second are rounded up, so that no limit becomes tighter."""
        return cls(
            name=task_type.name,
            enabled=task_type.enabled,
            trigger_mode=task_type.trigger_mode,
            interval=math.ceil(task_type.interval_ms / SECOND),
            timeout=math.ceil(task_type.timeout_ms / SECOND),
            task_ttl=math.ceil(task_type.task_ttl_ms / SECOND),
            max_retries=task_type.max_retries,
            description=task_type.description,
        )


def _read(data: Mapping[str, object], name: str, default: _Value) -> _Value:
    """The value under a name as the type of its default, texts accepted."""
    value = data.get(name, default)
    try:
        return msgspec.convert(value, type(default), strict=False)
    except (msgspec.ValidationError, UnicodeError):
        expected = {bool: "true or false", int: "a whole number", str: "text"}[type(default)]
        raise InvalidConfig(f"{name} of a TaskConfig is {value!r}. Use {expected}.") from None


def _seconds(data: Mapping[str, object], name: str, default: Millis) -> int:
    value = data.get(name, default // SECOND)
    if not isinstance(value, str | int | float):
        raise InvalidConfig(f"{name} of a TaskConfig is {value!r}. Use whole seconds, like 1800.")
    try:
        span = parse_duration(value, what=f"{name} of a TaskConfig")
    except (InvalidInput, OverflowError) as error:
        raise InvalidConfig(str(error)) from None
    if span % SECOND:
        raise InvalidConfig(f"{name} of a TaskConfig is {value!r}. Use whole seconds, or a TaskType for finer ones.")
    return span // SECOND


def _trigger_mode(value: object) -> TriggerMode:
    try:
        return TriggerMode(value)
    except ValueError:
        hint = did_you_mean(value, [mode.value for mode in TriggerMode])
        raise InvalidConfig(f"trigger_mode of a TaskConfig is {value!r}. {hint}") from None
