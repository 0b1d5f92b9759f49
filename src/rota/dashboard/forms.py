"""What a form sent. Read by hand: a form of ours has short fields and no files.

A task is named in a form by its type and its percent-encoded key: browsers rewrite line breaks, and a key may hold one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeVar
from urllib.parse import parse_qsl, quote, unquote

from fastapi import Request

from rota.core.task import Identity
from rota.errors import InvalidInput

__all__ = ["Form", "Misfilled", "form_of", "json_value", "read_identity", "whole_number", "written"]

MOST_FIELDS: Final = 2_000

_Read = TypeVar("_Read")


class Misfilled(InvalidInput):
    """Some fields of a form cannot be used; `messages` says of each why."""

    def __init__(self, messages: Mapping[str, str]) -> None:
        super().__init__(" ".join(f"{name}: {message}" for name, message in messages.items()))
        self.messages = messages


def written(identity: Identity) -> str:
    """A task as a field of a form names it."""
    return f"{identity.task_type}/{quote(identity.key, safe='')}"


def read_identity(text: str) -> Identity:
    """The task that a field names."""
    task_type, slash, key = text.partition("/")
    if not slash:
        raise InvalidInput(f"The form names the task {text[:60]!r}, which is none. Load the page again.")
    return Identity(task_type, unquote(key))


def whole_number(text: str) -> int:
    """A number from 0 on, as a field has it."""
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise InvalidInput(f"{text[:20]!r} is no whole number. Use one from 0 on, like 5.")
    return int(text)


def json_value(text: str) -> object:
    """A value of any kind, as a field has it."""
    try:
        value: object = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"This is no JSON: {error}. A text needs quotes.") from None
    return value


def _refuse(constant: str) -> object:
    # Python reads NaN and Infinity, which are no JSON.
    raise ValueError(f"it has no word like {constant}")


class Form:
    """The fields of a form, by name.

    Those that somebody fills in are read by `read`, and then comes `check`: so all that is wrong is said at once, each
    at its field.
    """

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields
        self._wrong: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        """What was given; an empty field says nothing."""
        return next((value.strip() for key, value in self._fields if key == name and value.strip()), None)

    def exact(self, name: str) -> str:
        """What was given, to the letter: a key may begin with a space."""
        return next((value for key, value in self._fields if key == name), "")

    def need(self, name: str) -> str:
        """What must be given."""
        value = self.get(name)
        if value is None:
            raise InvalidInput(f"The form came without {name!r}. Fill it in and send it again.", field=name)
        return value

    def read(self, name: str, reader: Callable[[str], _Read]) -> _Read | None:
        """What was given, as `reader` understands it. None if nothing was, or if it cannot be used: see `check`."""
        text = self.get(name)
        if text is None:
            return None
        try:
            return reader(text)
        except InvalidInput as error:
            self.refuse(name, str(error))
            return None

    def refuse(self, name: str, message: str) -> None:
        """Say what is wrong with a field; the first message about it stays."""
        self._wrong.setdefault(name, message)

    def require(self, *names: str) -> None:
        """These must be filled in."""
        for name in names:
            if self.get(name) is None:
                self.refuse(name, "Fill this in.")

    def check(self) -> None:
        """Raise what is wrong with the fields that were read, if anything is."""
        if self._wrong:
            raise Misfilled(self._wrong)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self._fields if key == name]

    @property
    def identity(self) -> Identity:
        """The task that the form is about."""
        return read_identity(self.exact("task"))

    def fields(self, *but: str) -> list[tuple[str, str]]:
        """All fields, to be sent again; without those named."""
        return [(name, value) for name, value in self._fields if name not in but]


async def form_of(request: Request) -> Form:
    """The form that came with a request; its size was bounded before it came here."""
    body = await request.body()
    try:
        return Form(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise InvalidInput(f"The form cannot be read. It may have up to {MOST_FIELDS:,} fields, as UTF-8.") from None
