"""Reading the configuration: flags over environment over file over defaults, every problem reported at once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from rota.codec import warmed
from rota.config.document import read_document
from rota.config.layers import (
    KeyPath,
    Layer,
    dotted,
    environment_layer,
    flag_layer,
    mapping_layer,
    merged,
    substituted,
)
from rota.config.legacy import modernised
from rota.config.model import (
    RULES,
    SETTINGS,
    SINKS,
    TASKS,
    USER_KEY,
    Config,
    default_database,
    default_spool,
    warn_of_split,
)
from rota.config.settings import ALL
from rota.config.urls import masked
from rota.config.values import Convert, as_bool, as_float, as_int, as_text, reader_of
from rota.core.alert import AlertKind, AlertRule, AlertSink
from rota.core.task_type import (
    KNOWN_OPTIONS,
    RateLimit,
    RetryPolicy,
    TaskType,
    after_cycle,
    did_you_mean,
    setting_name,
)
from rota.errors import InvalidConfig, InvalidInput
from rota.keys import UserKeyConfig
from rota.triggers.cron import Cron
from rota.triggers.zone import default_timezone

__all__ = ["load_config"]

_Value = TypeVar("_Value")

warmed(msgspec.json.Decoder(AlertRule))
warmed(msgspec.json.Decoder(AlertSink), '{"name":"s"}')

_DEFAULT_FILE: Final = "rota.yaml"
_TASKS: Final[KeyPath] = tuple(TASKS.split("."))
_RULES: Final[KeyPath] = tuple(RULES.split("."))
_SINKS: Final[KeyPath] = tuple(SINKS.split("."))
_USER_KEY: Final[KeyPath] = tuple(USER_KEY.split("."))
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_SECRET = re.compile(r"passw|secret|token|credential|(?:api|llm)_?key", re.IGNORECASE)

_NESTED: Final[Mapping[str, type[msgspec.Struct]]] = {"rate_limit": RateLimit, "retry": RetryPolicy}


def load_config(
    source: str | Path | Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """The configuration of this process.

    `source` is a YAML file or a mapping of the same shape. Without one the file that ROTA_CONFIG names is read, else
    `rota.yaml` in the working directory, if it is there. `flags` has settings by path ("scheduler.enabled") or by the
    last name alone ("max_concurrent"). Raises `InvalidConfig` with every problem that was found.
    """
    findings = _Findings()
    settings = merged(
        modernised(layer, findings.warnings)
        for layer in (
            _source_layer(source, environ, findings.problems),
            environment_layer(environ, (*_TREE, "processing"), findings.warnings),
            flag_layer(flags, _SHORT),
        )
    )
    config = _build(_Reader(settings, findings), environ)
    if findings.problems:
        raise InvalidConfig(_report(findings.problems))
    return config


def _source_layer(
    source: str | Path | Mapping[str, object] | None, environ: Mapping[str, str], problems: list[str]
) -> Layer:
    if isinstance(source, Mapping):
        return mapping_layer(source, environ, problems)
    path = _file(source, environ)
    return {} if path is None else substituted(read_document(path, problems), environ, problems)


def _file(source: str | Path | None, environ: Mapping[str, str]) -> Path | None:
    named = source if source is not None else environ.get("ROTA_CONFIG") or None
    if named is not None:
        return Path(named)
    return Path(_DEFAULT_FILE) if Path(_DEFAULT_FILE).exists() else None


def _report(problems: list[str]) -> str:
    lines = [_printable(problem) for problem in problems]
    return lines[0] if len(lines) == 1 else "\n- ".join((f"The configuration has {len(lines)} problems:", *lines))


def _printable(text: str) -> str:
    # The name of a variable may hold any bytes, and a message must never fail to print.
    return text.encode(errors="backslashreplace").decode()


# --- what settings there are ---------------------------------------------------------------------------------------

_Tree = dict[str, "_Tree | None"]


def _struct_tree(struct: type[msgspec.Struct]) -> _Tree:
    return {
        setting_name(name): _struct_tree(_NESTED[name]) if name in _NESTED else None
        for name in struct.__struct_fields__
        if name not in ("name", "options")
    }


def _tree() -> _Tree:
    """Every setting by level; None is a value, a dict a section. What people name themselves is in `_NAMED`."""
    tree: _Tree = {}
    for path in (*SETTINGS, *(f"{USER_KEY}.{item.name}" for item in fields(UserKeyConfig))):
        *sections, leaf = path.split(".")
        _level(tree, sections)[leaf] = None
    for base in _NAMED:
        _level(tree, base)
    return tree


def _level(tree: _Tree, sections: Sequence[str]) -> _Tree:
    for section in sections:
        below = tree.setdefault(section, {})
        assert below is not None, "a section is no value"
        tree = below
    return tree


_NAMED: Final[Mapping[KeyPath, _Tree]] = {
    _TASKS: {**_struct_tree(TaskType), **dict.fromkeys(KNOWN_OPTIONS)},
    _RULES: _struct_tree(AlertRule),
    _SINKS: _struct_tree(AlertSink),
}
"""The sections in which people choose the names, and what stands below each name."""

_TREE: Final[_Tree] = _tree()
_READ: Final[Mapping[str, Convert]] = {setting.path: setting.read for setting in ALL}
# Of two settings with the same last name the first one has the short flag.
_SHORT: Final[Mapping[str, KeyPath]] = {
    setting.path.rpartition(".")[2]: tuple(setting.path.split(".")) for setting in reversed(ALL)
}


# --- from settings to values ---------------------------------------------------------------------------------------


@dataclass
class _Findings:
    """What is wrong, and what is only worth a word."""

    problems: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])


class _Reader:
    """Hands out settings, keeps the source of each, and knows at the end what nobody asked for."""

    def __init__(self, settings: Layer, findings: _Findings) -> None:
        self.findings = findings
        self.sources: dict[str, str] = {}
        self.failed: set[str] = set()
        self._left = dict(settings)

    def take(self, path: KeyPath, convert: Callable[[object], _Value], default: _Value) -> _Value:
        """The value of a setting; its default if it is not given, null, or wrong (which becomes a problem)."""
        given = self._left.pop(path, None)
        if given is None or given.value is None:
            return default
        self.sources[dotted(path)] = given.source
        try:
            return convert(given.value)
        except InvalidInput as error:
            shown = _shown(path, given.value)
            self.failed.add(dotted(path))
            self.findings.problems.append(f"{dotted(path)} is {shown} ({given.source}). {error}")
            return default

    def setting(self, path: str, default: object) -> object:
        """The value of one of the single settings."""
        return self.take(tuple(path.split(".")), _READ[path], default)

    def struct(self, base: KeyPath, struct: type[msgspec.Struct]) -> dict[str, object]:
        """The given settings of a struct, by the names of its fields."""
        values: dict[str, object] = {}
        for item in msgspec.structs.fields(struct):
            path = (*base, setting_name(item.name))
            if item.name in _NESTED:
                value = self.struct(path, _NESTED[item.name]) or None
            elif item.name in ("name", "options"):
                continue
            else:
                value = self.take(path, reader_of(item), None)
            if value is not None:
                values[item.name] = value
        return values

    def names(self, base: KeyPath) -> list[str]:
        """What the configuration speaks of below a section that has names of its own, in its order."""
        depth = len(base)
        return list(dict.fromkeys(path[depth] for path in self._left if path[:depth] == base and len(path) > depth))

    def refuse_the_rest(self) -> None:
        """Make a problem of every setting that does not exist, once for a whole section."""
        refused: set[KeyPath] = set()
        for path, (value, source) in self._left.items():
            here, level = _farthest(path)
            is_empty_section = level is not None and (value is None or value == {})
            if here not in refused and not is_empty_section:
                refused.add(here)
                self.findings.problems.append(_misplaced(here, level, path, value, source))


def _farthest(path: KeyPath) -> tuple[KeyPath, _Tree | None]:
    """How far a path leads: to a section, with what is in it; or to the first name that is none, with None."""
    level = _TREE
    for depth in range(len(path)):
        here = path[: depth + 1]
        below = _NAMED[here[:-1]] if here[:-1] in _NAMED else level.get(here[-1])
        if below is None:
            return here, None
        level = below
    return path, level


def _misplaced(here: KeyPath, level: _Tree | None, path: KeyPath, value: object, source: str) -> str:
    what = _shown(path, value) if here == path else "a section"
    if level is not None:
        return f"{dotted(here)} is {what} ({source}), but it is a section. It has: {', '.join(level) or 'names'}."
    siblings = _farthest(here[:-1])[1] or {}
    if here[-1] in siblings:
        return f"{dotted(here)} is a section ({source}), but it takes one value. Write it like '{here[-1]}: ...'."
    return f"{dotted(here)} is {what} ({source}), but there is no such setting. {did_you_mean(here[-1], siblings)}"


def _shown(path: KeyPath, value: object) -> str:
    """A value in a message: short, and without secrets even where the setting is misspelt."""
    if any(_SECRET.search(name) for name in path):
        return "'***'"
    text = masked(repr(value))
    return text if len(text) <= 120 else f"{text[:100]}..."


def _build(reader: _Reader, environ: Mapping[str, str]) -> Config:
    timezone = _timezone(reader, environ)
    store_url = str(reader.setting("store", Config.store_url))
    defaults: dict[str, object] = {
        "timezone": timezone,
        "store_url": store_url,
        "database_url": _inherited_database(reader, store_url),
        "spool_path": default_spool(store_url),
    }
    single: dict[str, Any] = {}
    for setting in ALL:
        default = defaults.get(setting.attribute, getattr(Config, setting.attribute))
        # What was taken above is gone: its value is the default by now.
        single[setting.attribute] = reader.setting(setting.path, default)
    sinks = _sinks(reader)
    config = Config(
        **single,
        user_key=_user_key(reader),
        alert_sinks=MappingProxyType(sinks),
        alert_rules=MappingProxyType(_rules(reader, sinks)),
        tasks=MappingProxyType(_tasks(reader, timezone)),
        sources=MappingProxyType(reader.sources),
    )
    reader.refuse_the_rest()
    reader.findings.problems.extend(config.problems())
    warnings = (*reader.findings.warnings, *warn_of_split(config))
    return replace(config, warnings=tuple(map(_printable, warnings)))


def _inherited_database(reader: _Reader, store_url: str) -> str:
    inherited = default_database(store_url)
    if inherited == store_url and "store" in reader.sources:
        reader.sources["database"] = "the store's"
    return inherited


def _timezone(reader: _Reader, environ: Mapping[str, str]) -> str:
    """As configured (ROTA_TIMEZONE is part of that), else what the host says, else UTC."""
    shared = {name: environ[name] for name in ("TIMEZONE", "TZ") if environ.get(name)}
    host = default_timezone(shared, None)
    for name, value in shared.items():
        if value.removeprefix(":") == host:
            reader.sources["timezone"] = f"environment {name}"
            break
    return str(reader.setting("timezone", host))


def _user_key(reader: _Reader) -> UserKeyConfig:
    given: dict[str, object] = {}
    for item in fields(UserKeyConfig):
        convert = as_bool if isinstance(item.default, bool) else as_text
        given[item.name] = reader.take((*_USER_KEY, item.name), convert, item.default)
    try:
        return UserKeyConfig.from_dict(given)
    except InvalidConfig as error:
        reader.findings.problems.append(f"{_USER_KEY[0]}.{error}")
        return UserKeyConfig()


def _sinks(reader: _Reader) -> dict[str, AlertSink]:
    return {name: _sink(reader, name) for name in reader.names(_SINKS)}


def _sink(reader: _Reader, name: str) -> AlertSink:
    base = (*_SINKS, name)
    sink = msgspec.convert({"name": name, **reader.struct(base, AlertSink)}, AlertSink)
    _note(reader, base, [*_wrong_name(name), *sink.problems()])
    return sink


def _rules(reader: _Reader, sinks: Mapping[str, AlertSink]) -> dict[str, AlertRule]:
    rules = {name: _rule(reader, name, sinks) for name in reader.names(_RULES)}
    return {name: rule for name, rule in rules.items() if rule is not None}


def _rule(reader: _Reader, name: str, sinks: Mapping[str, AlertSink]) -> AlertRule | None:
    base = (*_RULES, name)
    given = reader.struct(base, AlertRule)
    if "kind" not in given:
        if f"{dotted(base)}.kind" not in reader.failed:
            kinds = ", ".join(kind.value for kind in AlertKind)
            reader.findings.problems.append(f"{dotted(base)} has no kind. Say what it looks at: {kinds}.")
        return None
    rule = msgspec.convert({"name": name, **given}, AlertRule)
    _note(reader, base, [*_wrong_name(name), *rule.problems(sinks)])
    return rule


def _note(reader: _Reader, base: KeyPath, wrong: Sequence[tuple[str, str]]) -> None:
    """Make a sentence of each problem of a named section: its path, where it was given, what to do."""
    for setting, advice in wrong:
        path = dotted((*base, setting)) if setting else dotted(base)
        source = reader.sources.get(path)
        reader.findings.problems.append(f"{path}{f' ({source})' if source else ''}: {advice}")


def _wrong_name(name: str) -> list[tuple[str, str]]:
    if _NAME.fullmatch(name):
        return []
    return [("", "Use a name of small letters, digits, '_' and '-', at most 64, that begins with a letter.")]


def _tasks(reader: _Reader, timezone: str) -> dict[str, TaskType]:
    tasks = {name: _task(reader, name, timezone) for name in reader.names(_TASKS)}
    circle = after_cycle(tasks)
    if len(circle) > 2:  # a type after itself is reported with its own settings
        reader.findings.problems.append(
            f"{TASKS} has types that wait for each other: {' after '.join(reversed(circle))}. Take one `after` out."
        )
    return tasks


def _task(reader: _Reader, name: str, timezone: str) -> TaskType:
    base = (*_TASKS, name)
    given = {"name": name, "timezone": timezone, **reader.struct(base, TaskType)}
    _complete_rate_limit(reader, base, given)
    given["options"] = _options(reader, base)
    task_type = msgspec.convert(given, TaskType)
    where = dotted(base)
    if timezone != TaskType(name=name).timezone and task_type.timezone == timezone:
        reader.sources.setdefault(f"{where}.timezone", "the top-level timezone")
    if f"{where}.trigger_mode" not in reader.failed:  # else every setting of the mode that was meant would look wrong
        problems = task_type.problems(where, reader.sources) or _wrong_cron(task_type, where, reader.sources)
        reader.findings.problems.extend(problems)
    return task_type


def _complete_rate_limit(reader: _Reader, base: KeyPath, given: dict[str, object]) -> None:
    limit = given.get("rate_limit")
    if not isinstance(limit, dict) or "rate" in limit:
        return
    del given["rate_limit"]
    path = dotted((*base, "rate_limit"))
    if f"{path}.rate" not in reader.failed:
        reader.findings.problems.append(f"{path} has no rate. Add one, in starts per second, like 'rate: 10'.")


def _options(reader: _Reader, base: KeyPath) -> dict[str, object]:
    options: dict[str, object] = {}
    for name, (kind, _, _) in KNOWN_OPTIONS.items():
        value = reader.take((*base, name), as_int if kind is int else as_float, None)
        if value is not None:
            options[name] = value
    return options


def _wrong_cron(task_type: TaskType, where: str, sources: Mapping[str, str]) -> list[str]:
    if task_type.cron is None:
        return []
    try:
        Cron(task_type.cron, task_type.timezone)
    except InvalidInput as error:
        source = sources.get(f"{where}.cron", "default")
        return [f"{where}.cron is {task_type.cron[:100]!r} ({source}). {error}"]
    return []
