"""The form by which a task of a type is tried: laid out from what the handler takes, and read back as a payload."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from rota.app.rota import ScheduleOptions
from rota.app.schedules import instant_of
from rota.clock import Instant, isoformat, parse_duration
from rota.core.declaration import Field, FieldKind, Takes
from rota.core.task_type import did_you_mean
from rota.dashboard.forms import Form, json_value, whole_number
from rota.errors import InvalidInput

__all__ = ["IDS", "Question", "options_of", "payload_of", "questions"]

IDS: Final = ("user_id", "device_id", "agent_id")
PAYLOAD: Final = "payload"
_WHOLE_OBJECT: Final = Field(name=PAYLOAD)
"""Of a handler of which nobody has said what it takes, too."""


@dataclass(frozen=True, slots=True)
class Question:
    """One field of the form."""

    name: str
    label: str
    kind: FieldKind
    value: str
    hint: str
    required: bool
    choices: tuple[str, ...]


def questions(takes: Takes | None) -> list[Question]:
    """What the form asks for beside the ids: the payload, field by field where that is known."""
    return [_question(name, field) for name, field in _asked(takes)]


def _asked(takes: Takes | None) -> Sequence[tuple[str, Field]]:
    """What is asked for, each by its name in the form."""
    if takes is None:
        return [(PAYLOAD, _WHOLE_OBJECT)]
    if takes.payload is None:
        return []
    if takes.fields is None:
        return [(PAYLOAD, takes.payload)]
    return [(f"{PAYLOAD}.{field.name}", field) for field in takes.fields]


def _question(name: str, field: Field) -> Question:
    says = field.says if field.kind in ("json", "number", "moment") else ""
    return Question(
        name=name,
        label="Payload (JSON)" if field.name == PAYLOAD and field.kind == "json" else field.name,
        kind=field.kind,
        value=_written(field),
        hint=", ".join(part for part in (says, "" if field.required or field.name == PAYLOAD else "optional") if part),
        required=field.required,
        choices=tuple(map(_word, field.choices)),
    )


def _written(field: Field) -> str:
    """The default, as somebody would have typed it."""
    if field.default is None:
        return ""
    value: object = json.loads(field.default)
    if field.kind == "json":
        return json.dumps(value, ensure_ascii=False, indent=2)
    return "" if value is None else _word(value)


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# --- and back --------------------------------------------------------------------------------------------------------


def payload_of(form: Form, takes: Takes | None, timezone: str, now: Instant) -> object:
    """What was filled in, as the handler's payload; what is wrong with it is noted in the form, field by field."""
    read = partial(_value, form, timezone=timezone, now=now)
    if takes is None or takes.fields is None:
        return next((read(name, field) for name, field in _asked(takes)), None)
    given = {field.name: (name, field) for name, field in _asked(takes) if _is_given(form, name, field)}
    return {key: read(name, field) for key, (name, field) in given.items()}


def _is_given(form: Form, name: str, field: Field) -> bool:
    """Whether a field says something: an empty one that need not be filled in is left out."""
    return field.required or field.kind == "flag" or bool(form.exact(name).strip())


def _value(form: Form, name: str, field: Field, *, timezone: str, now: Instant) -> object:
    if field.kind == "flag":
        return form.get(name) is not None
    if field.required:
        form.require(name)
    readers: Mapping[FieldKind, Callable[[str], object]] = {
        "text": lambda _: form.exact(name).replace("\r\n", "\n"),
        "whole": _integer,
        "number": _number,
        "choice": partial(_chosen, field),
        "moment": lambda text: isoformat(instant_of(text, timezone, now, what=field.name, allow_past=True)),
        "json": json_value,
    }
    return form.read(name, readers[field.kind])


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"{text[:20]!r} is no whole number. Use one like 5.") from None


def _number(text: str) -> float:
    value = json_value(text) if text[-1:].isdigit() else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{text[:20]!r} is no number. Use one like 0.5.")
    return value


def _chosen(field: Field, text: str) -> object:
    known = {_word(value): value for value in field.choices}
    if text not in known:
        raise InvalidInput(f"There is no {text[:20]!r} here. {did_you_mean(text, known)}")
    return known[text]


def options_of(form: Form, timezone: str, now: Instant) -> ScheduleOptions:
    """Whose task it is, and the rest that is folded away: key, when, how urgent."""
    options = ScheduleOptions()
    for name in IDS:
        if (text := form.get(name)) is not None:
            options[name] = text
    if form.get("key") is not None:
        options["key"] = form.exact("key")
    if form.read("delay", partial(parse_duration, what="delay")) is not None:
        options["delay"] = form.need("delay")
    if form.read("at", lambda text: instant_of(text, timezone, now, what="at")) is not None:
        options["at"] = form.need("at")
    if "delay" in options and "at" in options:
        form.refuse("at", "A delay is given, too. Say one of them.")
    if (priority := form.read("priority", whole_number)) is not None:
        options["priority"] = priority
    if form.get("user_id") is None and (form.get("device_id") or form.get("agent_id")):
        form.refuse("user_id", "A device or an agent belongs to a user. Name the user, too.")
    return options
