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

from rota.config.catalog import NESTED, Catalog, catalog_of
from rota.config.document import read_document
from rota.config.layers import (
    Given,
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
from rota.config.model import TASKS, USER_KEY, Config, default_database, default_spool, warn_of_split
from rota.config.section import Entries, Section, Setting, option_checks
from rota.config.settings import BASE_SECTIONS, ENGINE_SETTINGS
from rota.config.values import Convert, as_bool, as_text, reader_of
from rota.core.task_type import TaskType, after_cycle, setting_name
from rota.errors import InvalidConfig, InvalidInput
from rota.keys import UserKeyConfig
from rota.triggers.cron import Cron
from rota.triggers.zone import default_timezone

__all__ = ["read_config"]

_Value = TypeVar("_Value")

_DEFAULT_FILE: Final = "rota.yaml"
_TASKS: Final[KeyPath] = tuple(TASKS.split("."))
_USER_KEY: Final[KeyPath] = tuple(USER_KEY.split("."))
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_ENGINE: Final[Mapping[str, Setting]] = {setting.path: setting for setting in ENGINE_SETTINGS}


def read_config(
    source: str | Path | Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
    sections: Sequence[Section[Any]] = (),
) -> Config:
    """The configuration of this process.

    `source` is a YAML file or a mapping of the same shape. Without one the file that ROTA_CONFIG names is read, else
    `rota.yaml` in the working directory, if it is there. `flags` has settings by path ("scheduler.enabled") or by the
    last name alone ("max_concurrent"). `sections` are those of the parts; no other part's settings are known. Raises
    `InvalidConfig` with every problem that was found.
    """
    catalog = catalog_of((*sections, *(base for base in BASE_SECTIONS if base not in sections)))
    findings = _Findings()
    settings = merged(
        modernised(layer, catalog.renamed, findings.warnings)
        for layer in (
            _source_layer(source, environ, findings.problems),
            environment_layer(environ, (*catalog.first_names, "processing"), findings.warnings),
            flag_layer(flags, catalog.short),
        )
    )
    config = _build(_Reader(settings, findings, catalog), environ)
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


# --- from settings to values ---------------------------------------------------------------------------------------


@dataclass
class _Findings:
    """What is wrong, and what is only worth a word."""

    problems: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])


class _Reader:
    """Hands out settings, keeps the source of each, and knows at the end what nobody asked for."""

    def __init__(self, settings: Layer, findings: _Findings, catalog: Catalog) -> None:
        self.findings = findings
        self.catalog = catalog
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
            shown = self.catalog.value_in_message(path, given.value)
            self.failed.add(dotted(path))
            self.findings.problems.append(f"{dotted(path)} is {shown} ({given.source}). {error}")
            return default

    def setting(self, setting: Setting, default: object) -> object:
        """The value of one of the single settings of the engine."""
        return self.take(tuple(setting.path.split(".")), setting.read, default)

    def struct(
        self, base: KeyPath, struct: type[msgspec.Struct], readers: Mapping[str, Convert] | None = None
    ) -> dict[str, object]:
        """The given settings of a struct, by the names of its fields."""
        readers = readers or {}
        values: dict[str, object] = {}
        for item in msgspec.structs.fields(struct):
            path = (*base, setting_name(item.name))
            if item.name in NESTED:
                value = self.struct(path, NESTED[item.name]) or None
            elif item.name in ("name", "options"):
                continue
            else:
                value = self.take(path, readers.get(item.name) or reader_of(item), None)
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
            here, level = self.catalog.farthest(path)
            is_empty_section = level is not None and (value is None or value == {})
            if here not in refused and not is_empty_section:
                refused.add(here)
                self.findings.problems.append(self.catalog.misplaced(here, level, path, Given(value, source)))


def _build(reader: _Reader, environ: Mapping[str, str]) -> Config:
    timezone = _timezone(reader, environ)
    store_url = str(reader.setting(_ENGINE["store"], Config.store_url))
    defaults: dict[str, object] = {
        "timezone": timezone,
        "store_url": store_url,
        "database_url": _inherited_database(reader, store_url),
        "spool_path": default_spool(store_url),
    }
    single: dict[str, Any] = {}
    for setting in ENGINE_SETTINGS:
        default = defaults.get(setting.attribute, getattr(Config, setting.attribute))
        # What was taken above is gone: its value is the default by now.
        single[setting.attribute] = reader.setting(setting, default)
    sections = reader.catalog.sections
    values = ((section, _section(reader, section)) for section in sections)
    said = {section.name: value for section, value in values if value != section.default}
    config = Config(
        **single,
        user_key=_user_key(reader),
        tasks=MappingProxyType(_tasks(reader, timezone)),
        sources=MappingProxyType(reader.sources),
        sections=sections,
        section_values=MappingProxyType(said),
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
    return str(reader.setting(_ENGINE["timezone"], host))


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


def _section(reader: _Reader, section: Section[Any]) -> Any:
    """The values of a part's section, checked as far as they do not depend on each other."""
    values: Any = section.values
    base = (section.name,)
    given: dict[str, object] = {
        setting.attribute: reader.take(
            (*base, *setting.path.split(".")), setting.read, getattr(section.default, setting.attribute)
        )
        for setting in section.settings
    }
    for entries in section.entries:
        given[entries.attribute] = MappingProxyType(_entries(reader, (*base, entries.path), entries))
    made = values(**given)
    for entries in section.entries:
        named: Mapping[str, msgspec.Struct] = getattr(made, entries.attribute)
        for name, entry in named.items():
            _note(reader, (*base, entries.path, name), [*_wrong_name(name), *entries.check(entry, made)])
    return made


def _entries(reader: _Reader, base: KeyPath, entries: Entries[Any]) -> dict[str, msgspec.Struct]:
    found = {name: _entry(reader, (*base, name), entries) for name in reader.names(base)}
    return {name: entry for name, entry in found.items() if entry is not None}


def _entry(reader: _Reader, base: KeyPath, entries: Entries[Any]) -> msgspec.Struct | None:
    """None if it lacks something without which nothing else can be said of it."""
    given = reader.struct(base, entries.struct, entries.readers)
    missing = [setting for setting in entries.required if setting not in given]
    reader.findings.problems.extend(
        f"{dotted(base)} has no {setting}. {entries.required[setting]}"
        for setting in missing
        if dotted((*base, setting)) not in reader.failed
    )
    return None if missing else msgspec.convert({"name": base[-1], **given}, entries.struct)


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
    for limit in ("rate_limit", "start_limit"):
        _complete_limit(reader, base, given, limit)
    given["options"] = _options(reader, base)
    task_type = msgspec.convert(given, TaskType)
    where = dotted(base)
    if timezone != TaskType(name=name).timezone and task_type.timezone == timezone:
        reader.sources.setdefault(f"{where}.timezone", "the top-level timezone")
    if f"{where}.trigger_mode" not in reader.failed:  # else every setting of the mode that was meant would look wrong
        checks = option_checks(reader.catalog.sections)
        problems = task_type.problems(where, reader.sources, checks) or _wrong_cron(task_type, where, reader.sources)
        reader.findings.problems.extend(problems)
    return task_type


def _complete_limit(reader: _Reader, base: KeyPath, given: dict[str, object], name: str) -> None:
    limit = given.get(name)
    if not isinstance(limit, dict) or "rate" in limit:
        return
    del given[name]
    path = dotted((*base, name))
    if f"{path}.rate" not in reader.failed:
        reader.findings.problems.append(f"{path} has no rate. Add one, in starts per second, like 'rate: 10'.")


def _options(reader: _Reader, base: KeyPath) -> dict[str, object]:
    options: dict[str, object] = {}
    for name, option in reader.catalog.type_options.items():
        value = reader.take((*base, name), option.read, None)
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
