"""From what a source gave to a value of the right type, or a sentence that says what was expected.

The environment knows nothing but texts, so "true", "5" and "30m" are read as what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from types import NoneType, UnionType
from typing import Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from rota.clock import SECOND, Millis, parse_duration
from rota.core.task_type import did_you_mean
from rota.errors import InvalidConfig, InvalidInput
from rota.triggers.zone import zone

__all__ = [
    "Convert",
    "as_amount",
    "as_argv",
    "as_bool",
    "as_choice",
    "as_duration",
    "as_float",
    "as_int",
    "as_names",
    "as_path",
    "as_spool",
    "as_text",
    "as_zone",
    "reader_of",
]

Convert = Callable[[object], object]

_Scalar = TypeVar("_Scalar", bool, int, float, str)

_EXPECTED: Final[dict[object, str]] = {
    bool: "Use true or false.",
    int: "Use a whole number.",
    float: "Use a number.",
    str: "Use text; put it in quotes.",
}


def as_bool(value: object) -> bool:
    """True or false, also as text."""
    return _lax(value, bool)


def as_int(value: object) -> int:
    """A whole number, also as text. True is no number."""
    return _lax(value, int)


def as_float(value: object) -> float:
    """A number, also as text."""
    return _lax(value, float)


def as_text(value: object) -> str:
    """A text that can be written as UTF-8; an environment variable may hold any bytes."""
    text = _lax(value, str)
    try:
        text.encode()
    except UnicodeError:
        raise InvalidConfig("Use valid UTF-8 text.") from None
    return text


def as_duration(value: object) -> Millis:
    """Milliseconds of seconds or of a duration like "30m"."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise InvalidConfig("Use seconds or a duration, like 1800 or '30m'.")
    try:
        return parse_duration(value)
    except (InvalidInput, OverflowError):
        raise InvalidConfig("Use 0 seconds to 10 years, like 1800, '30m' or '1h30m'.") from None


def as_names(value: object) -> tuple[str, ...]:
    """Names, as a list or parted by commas."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    try:
        return msgspec.convert(value, tuple[str, ...])
    except msgspec.ValidationError:
        raise InvalidConfig("Use a list of names, like [memory_compression].") from None


def as_amount(value: object) -> float:
    """A number; a duration counts in seconds, and a percentage as a share."""
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and text.endswith("%"):
        return as_float(text[:-1]) / 100
    if isinstance(text, str) and text[-1:].isalpha():
        return as_duration(text) / SECOND
    return as_float(value)


def as_argv(value: object) -> tuple[str, ...]:
    """A program and its arguments: a list, never a line for a shell."""
    try:
        argv = msgspec.convert(value, tuple[str, ...])
    except msgspec.ValidationError:
        argv = ()
    if not argv or not argv[0].strip() or any("\0" in argument for argument in argv):
        raise InvalidConfig("Use a list: the program, then its arguments, like [/usr/bin/notify, --urgent].")
    return tuple(map(as_text, argv))


def as_choice(*choices: str) -> Convert:
    """How one of a few words is read."""
    return lambda value: _chosen(value, choices)


def as_path(value: object) -> str:
    """The path of a file or a folder."""
    text = as_text(value)
    if not text.strip() or "\0" in text:
        raise InvalidConfig("Use a path, like 'rota-token'.")
    return text


def as_spool(value: object) -> str | None:
    """The path of a file, or None for none. YAML reads a plain `off` as false, so that is what it means."""
    if value is False or (isinstance(value, str) and value.strip().lower() in ("off", "false", "no", "none")):
        return None
    if not isinstance(value, str) or not value.strip() or "://" in value or "\0" in value:
        raise InvalidConfig("Use the path of a file, like 'rota-spool.db', or 'off'.")
    return as_text(value)


def as_zone(value: object) -> str:
    """The name of an IANA zone."""
    return zone(as_text(value)).key


def reader_of(field: msgspec.structs.FieldInfo) -> Convert:
    """How a setting of a struct is read, by the name and the type of its field."""
    if field.name.endswith("_ms"):
        return as_duration
    if field.name in _BY_NAME:
        return _BY_NAME[field.name]
    return lambda value: _lax_of(value, _without_none(field.type))


def _lax(value: object, kind: type[_Scalar]) -> _Scalar:
    if isinstance(value, bool) and kind is not bool:
        raise InvalidConfig(_EXPECTED[kind])
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, UnicodeError):
        raise InvalidConfig(_EXPECTED[kind]) from None


def _lax_of(value: object, kind: object) -> object:
    """A plain value of any type that a setting may have; a choice is answered with the nearest one."""
    choices = _choices(kind)
    return _chosen(value, choices) if choices else _BY_TYPE[kind](value)


def _chosen(value: object, choices: Collection[str]) -> str:
    if isinstance(value, str) and value in choices:
        return value
    raise InvalidConfig(did_you_mean(value, choices))


_BY_NAME: Final[dict[str, Convert]] = {
    "after": as_names,
    "timezone": as_zone,
}
_BY_TYPE: Final[dict[object, Convert]] = {bool: as_bool, int: as_int, float: as_float, str: as_text}


def _choices(kind: object) -> list[str]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(member.value) for member in kind]
    return [str(choice) for choice in get_args(kind)] if get_origin(kind) is Literal else []


def _without_none(kind: object) -> object:
    if get_origin(kind) not in (Union, UnionType):
        return kind
    rest = [part for part in get_args(kind) if part is not NoneType]
    return rest[0]
