"""What a handler takes, read from its signature: the ids, and the payload with what its annotation tells of it.

A handler gets its payload as plain JSON. How it is annotated says more for whoever fills in a form: `str`, `Literal`
and the like by themselves; a TypedDict, a dataclass, a msgspec Struct or a pydantic model field by field.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Final, Literal, NotRequired, Required, Union, cast

import msgspec

from rota.core.declaration import MAX_FIELDS, Field, FieldKind, Takes
from rota.masking import is_secret_name
from rota.runtime.handler import Handler

__all__ = ["takes_of"]

IDS: Final = ("user_id", "device_id", "agent_id")
_SIMPLE: Final[Mapping[object, FieldKind]] = {
    str: "text",
    int: "whole",
    float: "number",
    bool: "flag",
    datetime: "moment",
}
_LONGEST_DEFAULT: Final = 500
_NO_DEFAULT: Final = object()


def takes_of(handler: Handler) -> Takes:
    """What the handler takes, for those who fill it in."""
    if handler.positional:
        return Takes(ids=IDS)
    ids = tuple(name for name in IDS if name in handler.parameters)
    if "payload" not in handler.parameters:
        return Takes(ids=ids)
    annotation = _annotation_of_payload(handler)
    payload = _field("payload", annotation, required=False)
    fields = tuple(_fields_of(_bare(annotation)[0]))[:MAX_FIELDS]
    return Takes(ids=ids, payload=payload, fields=fields or None)


def _annotation_of_payload(handler: Handler) -> object:
    function = handler.function
    target = function if inspect.isroutine(function) else getattr(function, "func", function)
    try:
        return typing.get_type_hints(target, include_extras=True).get("payload", Any)
    except Exception:  # an annotation is any expression: what evaluating it raises is not ours to know
        return Any


def _field(name: str, annotation: object, *, required: bool, default: object = _NO_DEFAULT) -> Field:
    bare, is_optional = _bare(annotation)
    kind, choices = _kind_of(bare)
    return Field(
        name=name,
        kind=kind,
        required=required and not is_optional,
        default=None if default is _NO_DEFAULT or is_secret_name(name) else _as_json(default),
        choices=choices,
        says=_words(annotation),
    )


def _bare(annotation: object) -> tuple[object, bool]:
    """What an annotation says without its wrapping, and whether it may be None."""
    is_optional = False
    while True:
        origin = typing.get_origin(annotation)
        if origin in (Annotated, Required, NotRequired):
            annotation = typing.get_args(annotation)[0]
        elif origin in (Union, types.UnionType):
            others = [each for each in typing.get_args(annotation) if each is not types.NoneType]
            if len(others) != 1:
                return annotation, is_optional
            annotation, is_optional = others[0], True
        else:
            return annotation, is_optional


def _kind_of(bare: object) -> tuple[FieldKind, tuple[str | int | bool, ...]]:
    if typing.get_origin(bare) is Literal:
        return _choice(typing.get_args(bare))
    if isinstance(bare, type) and issubclass(bare, Enum):
        return _choice(tuple(member.value for member in bare))
    for simple, kind in _SIMPLE.items():
        if bare is simple:
            return kind, ()
    return "json", ()


def _choice(values: tuple[object, ...]) -> tuple[FieldKind, tuple[str | int | bool, ...]]:
    plain = tuple(value for value in values if isinstance(value, str | int))
    return ("choice", plain) if len(plain) == len(values) <= MAX_FIELDS else ("json", ())


def _fields_of(kind: object) -> Iterator[Field]:
    """The fields of an object whose class describes them; none of anything else."""
    if not isinstance(kind, type):
        return
    described = _described(kind)
    if described is None:
        return
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:  # as above
        return
    for name, (required, default) in described.items():
        annotation: object = hints.get(name, Any)
        # A TypedDict of a module whose annotations are texts does not know by itself which of its keys may be missing.
        must = typing.get_origin(annotation) is Required or (
            required and typing.get_origin(annotation) is not NotRequired
        )
        yield _field(name, annotation, required=must, default=default)


def _described(kind: type) -> Mapping[str, tuple[bool, object]] | None:
    """The fields by their name: whether each must be given, and its default."""
    if typing.is_typeddict(kind):
        required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
        names: Mapping[str, object] = kind.__annotations__
        return {name: (name in required, _NO_DEFAULT) for name in names}
    if dataclasses.is_dataclass(kind):
        given = ((each.name, each.default, each.default_factory) for each in dataclasses.fields(kind) if each.init)
        return {name: _given(default, factory, dataclasses.MISSING) for name, default, factory in given}
    if issubclass(kind, msgspec.Struct):
        given = ((each.encode_name, each.default, each.default_factory) for each in msgspec.structs.fields(kind))
        return {name: _given(default, factory, msgspec.NODEFAULT) for name, default, factory in given}
    fields: object = getattr(cast("object", kind), "model_fields", None)
    if not isinstance(fields, Mapping):
        return None
    found: dict[str, tuple[bool, object]] = {}
    for name, each in fields.items():  # pyright: ignore[reportUnknownVariableType] -- a pydantic model's, if it is one
        must: bool = each.is_required()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] -- the same
        found[str(name)] = (must, _NO_DEFAULT if must else each.default)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] -- the same
    return found


def _given(default: object, factory: object, missing: object) -> tuple[bool, object]:
    if default is not missing:
        return False, default
    return factory is missing, _NO_DEFAULT


def _as_json(default: object) -> str | None:
    """A default as JSON, if it is short and can be written so."""
    try:
        text = msgspec.json.encode(default)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return None
    return text.decode() if len(text) <= _LONGEST_DEFAULT else None


def _words(annotation: object) -> str:
    """The annotation as it is written in the program."""
    bare, _ = (
        _bare(annotation) if typing.get_origin(annotation) in (Annotated, Required, NotRequired) else (annotation, 0)
    )
    text = bare.__name__ if isinstance(bare, type) and not typing.get_args(bare) else str(bare)
    return "" if bare is Any else text.replace("typing.", "")[:80]
