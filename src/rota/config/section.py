"""A section of the configuration: the settings of one part, with their defaults and what is impossible in them.

The configuration lies below the parts and names none of them. Each part describes its own section, and whoever loads a
configuration hands the sections in:

    @dataclass(frozen=True, kw_only=True)
    class GreeterConfig:
        name: str = "world"
        pause_ms: Millis = 5 * SECOND

    GREETER_SECTION = Section(
        name="greeter",
        values=GreeterConfig,
        settings=(Setting("name", "name", as_text), Setting("pause", "pause_ms", as_duration)),
        rules=(Rule("pause", lambda greeter: greeter.pause_ms <= HOUR, "Use 0s to 1h."),),
    )

    config = rota.load_config("rota.yaml", sections=[GREETER_SECTION])
    GREETER_SECTION.of(config).pause_ms

Everything else follows from it: files, `ROTA_GREETER__PAUSE` and flags know the setting, misspellings of it are refused
with a suggestion, and `rota config show` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from rota.config.shown import Mask, shown, struct_rows
from rota.config.values import Convert, as_float, as_int
from rota.core.task_type import Option, OptionCheck

__all__ = ["Entries", "Rule", "Section", "Setting", "TypeOption", "number", "option_checks", "whole_number"]

ValuesT = TypeVar("ValuesT")
EntryT = TypeVar("EntryT", bound=msgspec.Struct)


class Setting(NamedTuple):
    """One setting with one value: its path below the section, the attribute that holds it, and how it is read."""

    path: str
    attribute: str
    read: Convert


@dataclass(frozen=True)
class Rule(Generic[ValuesT]):
    """What must hold for the values of a section; if it does not, the setting is to blame, and `advice` says more."""

    path: str
    holds: Callable[[ValuesT], bool]
    advice: str


def _is_fine(_: Option) -> None:
    """A check that says nothing against any value."""


@dataclass(frozen=True)
class TypeOption:
    """An option that task types may have under `scheduler.tasks.<type>`, because a part's handlers understand it."""

    read: Convert
    check: OptionCheck = _is_fine


def whole_number(least: int, greatest: int) -> TypeOption:
    """An option that is a whole number within limits."""
    return _within(as_int, int, f"Use a whole number from {least} to {greatest}.", least, greatest)


def number(least: float, greatest: float) -> TypeOption:
    """An option that is a number within limits."""
    return _within(as_float, (int, float), f"Use a number from {least} to {greatest}.", least, greatest)


def _within(read: Convert, kind: type | tuple[type, ...], advice: str, least: float, greatest: float) -> TypeOption:
    def check(value: Option) -> str | None:
        # In Python true is a number, too.
        if isinstance(value, bool | str) or not isinstance(value, kind):
            return advice
        return None if least <= value <= greatest else advice

    return TypeOption(read, check)


@dataclass(frozen=True, kw_only=True, eq=False)
class Entries(Generic[EntryT]):
    """A place in a section where people choose the names: `alerts.rules.<name>`. Each name has a struct's settings."""

    path: str
    attribute: str
    """The mapping, from names to structs, among the section's values."""
    struct: type[EntryT]
    """It has a `name`; its other fields are the settings."""
    readers: Mapping[str, Convert] = field(default_factory=dict[str, Convert])
    """How fields are read whose type does not say it."""
    required: Mapping[str, str] = field(default_factory=dict[str, str])
    """The settings that every entry needs, each with what to say to whoever leaves it out."""
    check: Callable[[EntryT, Any], Sequence[tuple[str, str]]] = lambda entry, values: ()
    """What is impossible in an entry, given all values of the section: the setting, and what to do."""
    unset: Mapping[str, str] = field(default_factory=dict[str, str])
    masks: Mapping[str, Mask] = field(default_factory=dict[str, Mask])


class HasSections(Protocol):
    """What of a `Config` is needed here."""

    @property
    def section_values(self) -> Mapping[str, object]: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Section(Generic[ValuesT]):
    """Everything that is known of one part's settings."""

    name: str
    """The first name of every path in it: `agents` of `agents.timeout`."""
    values: type[ValuesT]
    """The frozen dataclass that holds the values. Each has a default."""
    settings: tuple[Setting, ...]
    """In the order in which they are shown. A short flag means the first setting of its name, over all sections."""
    rules: tuple[Rule[ValuesT], ...] = ()
    entries: tuple[Entries[Any], ...] = ()
    type_options: Mapping[str, TypeOption] = field(default_factory=dict[str, TypeOption])
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Older names of settings, which are taken as their newer ones, with a warning."""
    unset: Mapping[str, str] = field(default_factory=dict[str, str])
    """What is shown for an attribute that is None, where that is not "none"."""
    masks: Mapping[str, Mask] = field(default_factory=dict[str, Mask])
    """How an attribute is shown that holds a secret."""

    def of(self, config: HasSections) -> ValuesT:
        """The values that a configuration has for this section; the defaults, if nobody asked it for them."""
        found: Any = config.section_values.get(self.name)
        return self.default if found is None else found

    @cached_property
    def default(self) -> ValuesT:
        """The values where nothing is said."""
        return self.values()

    def broken_rules(self, config: HasSections) -> list[tuple[str, str]]:
        """The settings whose values are impossible, each with what to do."""
        values = self.of(config)
        return [(f"{self.name}.{rule.path}", rule.advice) for rule in self.rules if not rule.holds(values)]

    def rows(self, config: HasSections) -> Iterator[tuple[str, str]]:
        """Every single setting, with its value as people see it."""
        values = self.of(config)
        for setting in self.settings:
            value: object = getattr(values, setting.attribute)
            yield f"{self.name}.{setting.path}", shown(setting.attribute, value, self.unset, self.masks)

    def entry_rows(self, config: HasSections) -> Iterator[tuple[str, str]]:
        """The same for the entries that people have named."""
        values = self.of(config)
        for entries in self.entries:
            named: Mapping[str, msgspec.Struct] = getattr(values, entries.attribute)
            for name, entry in named.items():
                yield from struct_rows(f"{self.name}.{entries.path}.{name}", entry, entries.unset, entries.masks)

    def __repr__(self) -> str:
        return f"<section {self.name!r}>"


def option_checks(sections: Iterable[Section[Any]]) -> dict[str, OptionCheck]:
    """How the options of task types are checked, by the sections that bring them."""
    return {name: option.check for section in sections for name, option in section.type_options.items()}
