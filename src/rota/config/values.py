"""From what a source gave to a value of the right type, or a sentence that says what was expected.

The environment knows nothing but texts, so "true", "5" and "30m" are read as what they say.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import NoneType, UnionType
from typing import Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from rota.clock import Millis, parse_duration
from rota.core.task_type import did_you_mean
from rota.errors import InvalidConfig, InvalidInput
from rota.triggers.zone import zone

__all__ = [
    "Convert",
    "as_bool",
    "as_duration",
    "as_float",
    "as_int",
    "as_names",
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
    """How a setting of a struct is read: by the name and the type of its field."""
    if field.name.endswith("_ms"):
        return as_duration
    if field.name == "after":
        return as_names
    if field.name == "timezone":
        return as_zone
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
    if choices:
        if value in choices:
            return value
        raise InvalidConfig(did_you_mean(value, choices))
    return _BY_TYPE[kind](value)


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
