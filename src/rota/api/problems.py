"""Errors as RFC 9457 problem details: every answer that is no success says what happened, with a stable code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response

from rota.errors import (
    CountChanged,
    IllegalTransition,
    InvalidInput,
    LeaseLost,
    NotAllowed,
    RotaError,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
)

__all__ = ["MEDIA_TYPE", "STATUS", "Problem", "Refused", "problem_of", "problem_of_status", "respond", "status_of"]

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER: Final = "2"
"""Seconds after which a store that was away is worth another try."""


@dataclass(frozen=True)
class Problem:
    """One problem as it is sent."""

    status: int
    code: str
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    extra: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def title(self) -> str:
        """The code in words."""
        return self.code.replace("_", " ").capitalize()

    def to_dict(self, instance: str) -> dict[str, object]:
        """The members of RFC 9457, and the code that programs switch on."""
        return {
            "type": f"urn:rota:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "instance": instance,
            **self.extra,
        }


class Refused(Exception):
    """A request that is answered with a problem before or beside what Rota itself refuses."""

    def __init__(
        self, status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **extra: object
    ) -> None:
        super().__init__(detail)
        self.problem = Problem(status, code, detail, headers or {}, extra)


STATUS: Final[Sequence[tuple[type[RotaError], int]]] = (
    (InvalidInput, HTTPStatus.UNPROCESSABLE_ENTITY),
    (NotAllowed, HTTPStatus.FORBIDDEN),
    (IllegalTransition, HTTPStatus.CONFLICT),
    (LeaseLost, HTTPStatus.CONFLICT),
    (CountChanged, HTTPStatus.CONFLICT),
    (SchemaMismatch, HTTPStatus.INTERNAL_SERVER_ERROR),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
)
"""Which status an error has that brings none itself, the first that fits; whatever is unknown is 404."""


def problem_of(error: RotaError) -> Problem:
    """What an error of Rota's looks like over HTTP."""
    extra: dict[str, object] = {"matched": error.count} if isinstance(error, CountChanged) else {}
    if isinstance(error, InvalidInput) and error.field is not None:
        extra["field"] = error.field
    return Problem(status_of(type(error)), error.code, str(error), _headers_of(error), extra)


def status_of(kind: type[RotaError]) -> int:
    """The status that errors of a kind are answered with."""
    if kind.status is not None:
        return kind.status
    status = next((status for each, status in STATUS if issubclass(kind, each)), None)
    if status is None:
        # Whatever is unknown is a LookupError; anything else that nobody foresaw is our fault.
        status = HTTPStatus.NOT_FOUND if issubclass(kind, LookupError) else HTTPStatus.INTERNAL_SERVER_ERROR
    return int(status)


def _headers_of(error: RotaError) -> dict[str, str]:
    if error.retry_after is not None:
        # Whole seconds, and rather one too many: whoever comes too early is refused again.
        return {"Retry-After": str(max(math.ceil(error.retry_after), 1))}
    return {"Retry-After": RETRY_AFTER} if isinstance(error, StoreUnavailable) else {}


_WORDS: Final[Mapping[int, tuple[str, str]]] = {
    400: ("invalid_request", "The request cannot be read. Send JSON, in UTF-8."),
    404: ("not_found", "There is nothing at this address. GET /api/openapi.json lists what there is."),
    405: ("method_not_allowed", "This address knows other methods; the header Allow names them."),
    500: ("internal_error", "Something went wrong inside. The log has it under the request id of this answer."),
}


def problem_of_status(status: int, detail: object = None, headers: Mapping[str, str] | None = None) -> Problem:
    """A problem that has nothing but a status."""
    code, words = _WORDS.get(status, ("http_error", str(detail or HTTPStatus(status).phrase)))
    return Problem(status, code, words, headers or {})


def respond(problem: Problem, instance: str) -> Response:
    """The answer that says so."""
    content = msgspec.json.encode(problem.to_dict(instance), enc_hook=_text)
    return Response(content, problem.status, dict(problem.headers), MEDIA_TYPE)


def _text(value: Any) -> str:
    return str(value)
