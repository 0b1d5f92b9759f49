"""What a handler takes, read from its signature, told within bounds, and filled in."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Literal, NotRequired, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from rota import Run
from rota.core.declaration import (
    MAX_BYTES,
    Declaration,
    Field,
    Takes,
    decode_declaration,
    encode_declaration,
)
from rota.dashboard import run_once
from rota.dashboard.forms import Form, Misfilled
from rota.runtime.handler import HandlerFunction, make_handler
from rota.runtime.signature import takes_of


class Tone(Enum):
    KIND = "kind"
    STERN = "stern"


class Letter(TypedDict):
    to: str
    copies: int
    weight: NotRequired[float]
    urgent: bool
    tone: Literal["kind", "stern"]
    level: NotRequired[Literal[1, 2]]
    send_at: NotRequired[datetime]
    lines: NotRequired[list[str]]


@dataclass
class Parcel:
    to: str
    tone: Tone = Tone.KIND
    pieces: int = 1
    api_key: str = "sk-not-for-a-form"
    tags: list[str] = field(default_factory=list[str])


class Card(msgspec.Struct):
    text: str
    signed: bool = True


class Model(BaseModel):
    text: str
    times: int = 3


def _takes(function: HandlerFunction, *, positional: bool = False) -> Takes:
    return takes_of(make_handler("work", function, positional=positional))


def _kinds(takes: Takes) -> dict[str, tuple[str, bool, str | None]]:
    assert takes.fields is not None
    return {each.name: (each.kind, each.required, each.default) for each in takes.fields}


def test_a_typed_dict_is_asked_for_field_by_field() -> None:
    def send(user_id: str, payload: Letter, run: Run) -> None: ...

    takes = _takes(send)
    assert takes.ids == ("user_id",)
    assert _kinds(takes) == {
        "to": ("text", True, None),
        "copies": ("whole", True, None),
        "weight": ("number", False, None),
        "urgent": ("flag", True, None),
        "tone": ("choice", True, None),
        "level": ("choice", False, None),
        "send_at": ("moment", False, None),
        "lines": ("json", False, None),
    }
    assert takes.fields is not None
    assert {each.name: each.choices for each in takes.fields if each.choices} == {
        "tone": ("kind", "stern"),
        "level": (1, 2),
    }


def test_classes_bring_their_defaults_but_for_secrets() -> None:
    def parcel(payload: Parcel | None) -> None: ...
    def card(payload: Card) -> None: ...
    def model(payload: Model) -> None: ...

    assert _kinds(_takes(parcel)) == {
        "to": ("text", True, None),
        "tone": ("choice", False, '"kind"'),
        "pieces": ("whole", False, "1"),
        "api_key": ("text", False, None),
        "tags": ("json", False, None),
    }
    assert _kinds(_takes(card)) == {"text": ("text", True, None), "signed": ("flag", False, "true")}
    assert _kinds(_takes(model)) == {"text": ("text", True, None), "times": ("whole", False, "3")}


def test_what_tells_nothing_is_json() -> None:
    def anything(payload: dict[str, Any]) -> None: ...
    def nothing(payload) -> None: ...  # type: ignore[no-untyped-def]  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType] -- as people write it
    def word(payload: str) -> None: ...
    def none() -> None: ...
    def everything(**named: object) -> None: ...
    def three(user: str, device: str, agent: str) -> None: ...

    assert _takes(anything).payload == Field(name="payload", says="dict[str, Any]")
    assert _takes(nothing).payload == Field(name="payload")  # pyright: ignore[reportUnknownArgumentType] -- the same
    assert _takes(word).payload == Field(name="payload", kind="text", says="str")
    assert _takes(none) == Takes()
    assert _takes(everything).ids == ("user_id", "device_id", "agent_id")
    assert _takes(three, positional=True) == Takes(ids=("user_id", "device_id", "agent_id"))


def test_a_declaration_travels_and_is_bounded() -> None:
    fields = tuple(Field(name=f"field_{number}", says="x" * 80) for number in range(100))
    told = Declaration(takes=Takes(payload=Field(name="payload"), fields=fields), sources={"interval": "code"}, by="a")
    assert decode_declaration(encode_declaration(told)) == told
    huge = msgspec.structs.replace(told, takes=Takes(payload=Field(name="payload"), fields=fields * 5))
    kept = decode_declaration(encode_declaration(huge))
    assert len(encode_declaration(huge)) <= MAX_BYTES
    assert kept.takes == Takes(payload=Field(name="payload"))
    assert kept.sources == told.sources


@pytest.mark.parametrize("text", ["", "{", "[]", '{"takes": 3}'])
def test_what_cannot_be_read_tells_nothing(text: str) -> None:
    assert decode_declaration(text) == Declaration()


def test_a_newer_declaration_is_read_as_far_as_it_is_known() -> None:
    assert decode_declaration('{"by": "a", "mood": "good"}') == Declaration(by="a")


def _sent(**fields: str) -> Form:
    return Form([(name.replace("__", "."), value) for name, value in fields.items()])


def test_a_form_becomes_a_payload() -> None:
    def send(payload: Letter) -> None: ...

    form = _sent(
        payload__to=" Ada\r\n",
        payload__copies="-2",
        payload__weight="0.5",
        payload__urgent="true",
        payload__tone="stern",
        payload__level="2",
        payload__send_at="2026-07-01T09:00",
        payload__lines='["a"]',
    )
    payload = run_once.payload_of(form, _takes(send), "Europe/Berlin", 0)
    form.check()
    assert payload == {
        "to": " Ada\n",
        "copies": -2,
        "weight": 0.5,
        "urgent": True,
        "tone": "stern",
        "level": 2,
        "send_at": "2026-07-01T07:00:00.000Z",
        "lines": ["a"],
    }


def test_what_is_wrong_is_told_field_by_field() -> None:
    def send(payload: Letter) -> None: ...

    form = _sent(payload__copies="two", payload__tone="loud", payload__weight="NaN", payload__lines="[", delay="soon")
    run_once.payload_of(form, _takes(send), "UTC", 0)
    run_once.options_of(form, "UTC", 0)
    with pytest.raises(Misfilled) as refused:
        form.check()
    names = ("to", "copies", "weight", "tone", "lines")
    assert set(refused.value.messages) == {*(f"payload.{name}" for name in names), "delay"}


def test_what_is_not_filled_in_is_left_out() -> None:
    form = _sent(payload__text="hello")

    def anything(payload: object) -> None: ...
    def card(payload: Card) -> None: ...
    def nothing() -> None: ...

    assert run_once.payload_of(form, _takes(card), "UTC", 0) == {"text": "hello", "signed": False}
    assert run_once.payload_of(form, _takes(nothing), "UTC", 0) is None
    assert run_once.payload_of(_sent(payload='{"n": 1}'), _takes(anything), "UTC", 0) == {"n": 1}
    assert run_once.payload_of(_sent(payload="3"), None, "UTC", 0) == 3
