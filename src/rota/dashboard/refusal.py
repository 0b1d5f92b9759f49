"""A form that was refused is shown again: what was typed is kept, and every message stands at its field.

The page that the form was on is asked for once more, as a browser would ask for it, with the `Refusal` beside the
request. Its templates make each form by `ui.form`, which hands them its `Fields`: they know what was typed and what is
wrong with it, if this form is the one that was refused, and nothing otherwise. So no page does anything for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from fastapi import Request
from fastapi.responses import Response
from markupsafe import Markup
from starlette.types import Message, Scope

from rota.api.problems import problem_of
from rota.dashboard.forms import Form, Misfilled
from rota.errors import InvalidInput, RotaError

__all__ = ["UNTOUCHED", "Fields", "Refusal", "page_again", "refusal_of"]

_KEPT: Final = ("type", "asgi", "http_version", "scheme", "server", "client", "root_path")
"""What of a request is the same for the page that its form was on."""
_NOT_FOR_A_PAGE: Final = frozenset({b"content-length", b"content-type", b"x-rota-fragment"})


class Refusal:
    """What a form sent, and what is wrong with it."""

    def __init__(self, path: str, form: Form, error: RotaError) -> None:
        self.path = path
        self.form = form
        self.status = problem_of(error).status
        self._by_field = _by_field(error)
        self._whole = None if self._by_field else str(error)
        self._said: set[str] = set()
        self._first: str | None = None
        self.is_shown = False
        """Whether the page that the form was on could be shown."""

    def at(self, name: str) -> str | None:
        """What is wrong with a field: whoever asks says it there."""
        message = self._by_field.get(name)
        if message is not None:
            self._said.add(name)
        return message

    def is_first(self, name: str) -> bool:
        """Whether a wrong field is the first one of the page. Fields are asked about in the order of the page."""
        self._first = self._first or name
        return name == self._first

    def take_rest(self) -> list[str]:
        """What no field has said yet; asking again gives nothing."""
        whole, self._whole = self._whole, None
        rest = [] if whole is None else [whole]
        rest += [message for name, message in self._by_field.items() if name not in self._said]
        self._said |= self._by_field.keys()
        return rest


def _by_field(error: RotaError) -> Mapping[str, str]:
    if isinstance(error, Misfilled):
        return error.messages
    field = error.field if isinstance(error, InvalidInput) else None
    return {} if field is None else {field: str(error)}


class Fields:
    """The fields of one form on a page. `refusal` is None unless it is this form that was refused."""

    def __init__(self, name: str, refusal: Refusal | None) -> None:
        self._name = name
        self._refusal = refusal

    def value(self, name: str, otherwise: object = "") -> object:
        """What was typed, to the letter; otherwise what the page has."""
        return otherwise if self._refusal is None else self._refusal.form.exact(name)

    def checked(self, name: str, value: str, *, otherwise: bool) -> bool:
        """Whether a box or one of several choices was ticked."""
        return otherwise if self._refusal is None else value in self._refusal.form.all(name)

    def wrong(self, name: str) -> str | None:
        """What is wrong with a field."""
        return None if self._refusal is None else self._refusal.at(name)

    def marks(self, name: str) -> Markup:
        """The attributes of a field that is wrong: it says so, names its message, and the first one has the focus."""
        if self._refusal is None or self._refusal.at(name) is None:
            return Markup("")
        focus = " autofocus" if self._refusal.is_first(name) else ""
        return Markup(' aria-invalid="true" aria-describedby="{}"{}').format(self.id(name), focus)

    def id(self, name: str) -> str:
        """The id of the message at a field."""
        return f"wrong-{self._name}-{name}".replace("/", "-")

    @property
    def was_refused(self) -> bool:
        return self._refusal is not None

    def take_rest(self) -> list[str]:
        """What is wrong with the form and with none of its fields. Asked when the fields have been laid out."""
        return [] if self._refusal is None else self._refusal.take_rest()


UNTOUCHED: Final = Fields("", None)
"""The fields of a form that is never refused, like a filter."""


def refusal_of(request: Request) -> Refusal | None:
    """The form that was refused, if that is why a page is asked for."""
    found: Refusal | None = getattr(request.state, "refusal", None)
    return found


async def page_again(request: Request, back: str, refusal: Refusal) -> Response | None:
    """The page at an address of this site, with the refused form; None if there is no such page to look at (any more).

    It is asked of the whole application, so that it is found, guarded and answered like any request for it.
    """
    path, _, query = back.partition("?")
    scope: Scope = {name: request.scope[name] for name in _KEPT if name in request.scope}
    scope |= {
        "method": "GET",
        "path": unquote(path),
        "raw_path": path.encode("latin-1", "ignore"),
        "query_string": query.encode("latin-1", "ignore"),
        "headers": [pair for pair in request.scope["headers"] if pair[0] not in _NOT_FOR_A_PAGE],
        "state": {"refusal": refusal},
    }
    answer = Response()
    body: list[bytes] = []

    async def take(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status_code = message["status"]
            answer.raw_headers = message["headers"]
        else:
            body.append(message.get("body", b""))

    await request.app(scope, request.receive, take)
    answer.body = b"".join(body)
    return answer if refusal.is_shown else None
