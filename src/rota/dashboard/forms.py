"""What a form sent. Read by hand: a form of ours has short fields and no files.

A task is named in a form by its type and its percent-encoded key: browsers rewrite line breaks, and a key may hold one.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, quote, unquote

from fastapi import Request

from rota.core.task import Identity
from rota.errors import InvalidInput

__all__ = ["Form", "form_of", "read_identity", "written"]

MOST_FIELDS: Final = 2_000


def written(identity: Identity) -> str:
    """A task as a field of a form names it."""
    return f"{identity.task_type}/{quote(identity.key, safe='')}"


def read_identity(text: str) -> Identity:
    """The task that a field names."""
    task_type, slash, key = text.partition("/")
    if not slash:
        raise InvalidInput(f"The form names the task {text[:60]!r}, which is none. Load the page again.")
    return Identity(task_type, unquote(key))


class Form:
    """The fields of a form, by name."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

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
            raise InvalidInput(f"The form came without {name!r}. Fill it in and send it again.")
        return value

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
