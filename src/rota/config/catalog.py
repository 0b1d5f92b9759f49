"""Every setting that there is: those of the engine, and those of the sections that parts bring.

It knows the names, so it says what is wrong with one that nobody reads: a misspelling, a value where a section stands,
or a section where a value does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

import msgspec

from rota.config.layers import Given, KeyPath, dotted
from rota.config.model import SETTINGS, TASKS, USER_KEY, Config
from rota.config.section import Section, TypeOption
from rota.config.settings import ENGINE_SETTINGS
from rota.config.urls import masked
from rota.core.task_type import RateLimit, RetryPolicy, TaskType, did_you_mean, setting_name
from rota.errors import InvalidConfig
from rota.keys import UserKeyConfig

__all__ = ["NESTED", "Catalog", "Tree", "catalog_of"]

NESTED: Final[Mapping[str, type[msgspec.Struct]]] = {
    "rate_limit": RateLimit,
    "start_limit": RateLimit,
    "retry": RetryPolicy,
}
"""The settings of a struct that are a section of their own."""

_SECRET = re.compile(r"passw|secret|token|credential|(?:api|llm)_?key", re.IGNORECASE)
_SECTION_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")

Tree = dict[str, "Tree | None"]
"""Settings by level: None is a value, a dict a section."""


@lru_cache(maxsize=32)
def catalog_of(sections: tuple[Section[Any], ...]) -> Catalog:
    """The catalog of the engine with these sections."""
    return Catalog(sections)


class Catalog:
    """The settings of the engine and of some sections, by their paths."""

    def __init__(self, sections: tuple[Section[Any], ...]) -> None:
        _check(sections)
        self.sections = sections
        self.type_options: dict[str, TypeOption] = {
            name: section.type_options[name] for section in sections for name in section.type_options
        }
        self.renamed: dict[KeyPath, KeyPath] = {
            _path(section.name, old): _path(section.name, new)
            for section in sections
            for old, new in section.renamed.items()
        }
        # Of two settings with the same last name the first one has the short flag.
        self.short: dict[str, KeyPath] = {path[-1]: path for path in reversed([*self._paths(), *self.renamed])}
        self._named: Mapping[KeyPath, Tree] = {
            _path(TASKS): {**_struct_tree(TaskType), **dict.fromkeys(self.type_options)},
            **{
                _path(section.name, entries.path): _struct_tree(entries.struct)
                for section in sections
                for entries in section.entries
            },
        }
        """The places in which people choose the names, and what stands below each name."""
        self._tree = self._make_tree()
        self._masked = frozenset(self._masked_paths())

    @property
    def first_names(self) -> list[str]:
        """The names at the top."""
        return list(self._tree)

    def farthest(self, path: KeyPath) -> tuple[KeyPath, Tree | None]:
        """How far a path leads: to a section, with what is in it; or to the first name that is none, with None."""
        level = self._tree
        for depth in range(len(path)):
            here = path[: depth + 1]
            below = self._named[here[:-1]] if here[:-1] in self._named else level.get(here[-1])
            if below is None:
                return here, None
            level = below
        return path, level

    def misplaced(self, here: KeyPath, level: Tree | None, path: KeyPath, given: Given) -> str:
        """What is wrong with a setting that nobody reads; `here` and `level` are how far its path leads."""
        value, source = given
        what = self.value_in_message(path, value) if here == path else "a section"
        if level is not None:
            return f"{dotted(here)} is {what} ({source}), but it is a section. It has: {', '.join(level) or 'names'}."
        siblings = self.farthest(here[:-1])[1] or {}
        if here[-1] in siblings:
            return f"{dotted(here)} is a section ({source}), but it takes one value. Write it like '{here[-1]}: ...'."
        return f"{dotted(here)} is {what} ({source}), but there is no such setting. {did_you_mean(here[-1], siblings)}"

    def value_in_message(self, path: KeyPath, value: object) -> str:
        """A value in a message: short, and without secrets even where the setting is misspelt."""
        if any(_SECRET.search(name) for name in path) or self._is_masked(path):
            return "'***'"
        text = masked(repr(value))
        return text if len(text) <= 120 else f"{text[:100]}..."

    def _is_masked(self, path: KeyPath) -> bool:
        return path in self._masked or (*path[:-2], path[-1]) in self._masked

    def _masked_paths(self) -> Iterator[KeyPath]:
        """The settings that parts call secret; those of entries without the names that people chose."""
        for section in self.sections:
            for setting in section.settings:
                if setting.attribute in section.masks:
                    yield _path(section.name, setting.path)
            for entries in section.entries:
                yield from (_path(section.name, entries.path, setting_name(field)) for field in entries.masks)

    def _paths(self) -> Iterator[KeyPath]:
        """Every single setting, in the order in which it is shown."""
        yield from map(_path, SETTINGS)
        for section in self.sections:
            yield from (_path(section.name, setting.path) for setting in section.settings)

    def _make_tree(self) -> Tree:
        tree: Tree = {}
        for *sections, leaf in (*self._paths(), *(_path(USER_KEY, item.name) for item in fields(UserKeyConfig))):
            _level(tree, sections)[leaf] = None
        for base in self._named:
            _level(tree, base)
        return tree


def _path(*names: str) -> KeyPath:
    return tuple(".".join(names).split("."))


def _level(tree: Tree, sections: Sequence[str]) -> Tree:
    for section in sections:
        below = tree.setdefault(section, {})
        assert below is not None, "a section is no value"
        tree = below
    return tree


def _struct_tree(struct: type[msgspec.Struct]) -> Tree:
    return {
        setting_name(name): _struct_tree(NESTED[name]) if name in NESTED else None
        for name in struct.__struct_fields__
        if name not in ("name", "options")
    }


# --- sections that cannot stand beside each other --------------------------------------------------------------------

_TAKEN: Final = frozenset(
    {
        *(setting.path.partition(".")[0] for setting in ENGINE_SETTINGS),
        *(item.name for item in fields(Config)),
        "config",
        "processing",
    }
)
_TYPE_SETTINGS: Final = frozenset(map(setting_name, TaskType.__struct_fields__))


def _check(sections: Sequence[Section[Any]]) -> None:
    """A mistake of whoever writes a part, not of whoever configures it."""
    seen: dict[str, Section[Any]] = {}
    brought: dict[str, Section[Any]] = {}
    for section in sections:
        if not _SECTION_NAME.fullmatch(section.name) or section.name in _TAKEN or section.name in seen:
            raise InvalidConfig(
                f"A section of the configuration cannot be called {section.name!r}: use small letters, digits and '_',"
                " and a name that no other section and no setting has."
            )
        seen[section.name] = section
        for option in section.type_options:
            if option in _TYPE_SETTINGS or option in brought:
                owner = f"the section {brought[option].name!r}" if option in brought else "every task type"
                raise InvalidConfig(
                    f"The section {section.name!r} brings the option {option!r} of task types, which {owner} has too."
                    " Call it otherwise."
                )
            brought[option] = section
