"""What an instance tells of a type beside its settings: what the handler takes, and where each setting comes from.

The service that shows a type need not be the process that has its handler, so this travels by the store: as a note for
each type, which whoever has the handler writes when it declares the type. It is for people and their forms alone: no
run depends on it, and a type without one is shown without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from rota.codec import warmed

__all__ = ["MAX_FIELDS", "Declaration", "Field", "FieldKind", "Takes", "decode_declaration", "encode_declaration"]

MAX_FIELDS: Final = 100
MAX_BYTES: Final = 16_384
"""Of one declaration: what is more than anybody fills in is not described."""

FieldKind = Literal["text", "whole", "number", "flag", "choice", "moment", "json"]
"""How a value is filled in. Whatever has no field of its own is JSON."""


class Field(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value that a handler takes."""

    name: str
    kind: FieldKind = "json"
    required: bool = False
    default: str | None = None
    """The default as JSON; None if there is none."""
    choices: tuple[str | int | bool, ...] = ()
    says: str = ""
    """The annotation, as the program has it."""


class Takes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a handler takes: whose task it is, and the payload."""

    ids: tuple[str, ...] = ()
    """Of user_id, device_id and agent_id those that it asks for."""
    payload: Field | None = None
    """None: it takes none."""
    fields: tuple[Field, ...] | None = None
    """What the payload consists of, where it is an object whose fields are known."""


class Declaration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one process knows of a type."""

    takes: Takes | None = None
    """None: nobody who has the handler has said so."""
    sources: Mapping[str, str] = {}
    """Where settings come from, by their name in YAML; what is not named is a default."""
    by: str = ""
    """The host that said it."""


def encode_declaration(declaration: Declaration) -> str:
    """As JSON, within bounds: first the fields are left out, then what the payload is."""
    for less in (declaration, _without_fields(declaration), replace(declaration, takes=None)):
        text = msgspec.json.encode(less).decode()
        if len(text.encode()) <= MAX_BYTES:
            return text
    return msgspec.json.encode(Declaration(by=declaration.by[:255])).decode()


def _without_fields(declaration: Declaration) -> Declaration:
    takes = declaration.takes
    return declaration if takes is None else replace(declaration, takes=replace(takes, fields=None))


_decode = warmed(msgspec.json.Decoder(Declaration), '{"takes":{"payload":{"name":"payload","kind":"text"}}}').decode


def decode_declaration(text: str | None) -> Declaration:
    """What was told; of a newer version what this one understands, and nothing where it understands nothing."""
    if text is None:
        return Declaration()
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return Declaration()
