"""Problems as the description has them: one answer for each status, with the codes that come with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from rota.api.models import AnswerModel
from rota.api.problems import MEDIA_TYPE, Problem, status_of
from rota.errors import RotaError

__all__ = ["DescribedProblems", "ProblemModel", "ReasonModel", "described_problems"]

SCHEMA: Final = "Problem"
_STATUSES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "400": ("The address or a header cannot be used.", ("invalid_path", "invalid_request", "unknown_host")),
    "401": ("No valid token came with the request.", ("unauthenticated",)),
    "403": ("The role is not enough, or the request comes from another site.", ("cross_origin",)),
    "404": ("There is no such thing.", ("not_found",)),
    "409": ("Its state does not allow this now. Nothing was changed.", ()),
    "413": ("The body is too large.", ("body_too_large",)),
    "415": ("The body is no JSON.", ("unsupported_media_type",)),
    "422": ("A value cannot be used.", ("invalid_request",)),
    "429": ("Too many attempts. `Retry-After` says when to come back.", ("too_many_attempts",)),
    "503": ("The store cannot be reached, or somebody has closed this for now.", ()),
}
"""What each status means, and the codes that come from the door; those of errors are found by their kinds."""


class ReasonModel(AnswerModel):
    """One thing that is wrong with a request."""

    at: list[str]
    """Where it is: `body` or `query`, then the names and places that lead there."""
    detail: str
    """What is wrong there."""


class ProblemModel(AnswerModel):
    """Problem details (RFC 9457). `code` is stable; programs may switch on it."""

    type: str
    """A name for problems of this code; nothing is at this address."""
    title: str
    """The code in words."""
    status: int
    """The status of the answer once more."""
    detail: str
    """What happened, and what to do about it."""
    code: str
    """What kind of problem it is. It never changes its meaning."""
    instance: str
    """The address that was asked."""
    errors: list[ReasonModel] | None = None
    """Everything that is wrong with the request, if it is not as described here."""
    matched: int | None = None
    """With `count_changed`: how many match now."""
    field: str | None = None
    """What of the request cannot be used, if it is one thing."""


class DescribedProblems(NamedTuple):
    """The schemas of problems, and an answer for each status."""

    schemas: dict[str, Any]
    responses: dict[str, Any]


def described_problems() -> DescribedProblems:
    """What the operations refer to."""
    schema = ProblemModel.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas: dict[str, Any] = {**schema.pop("$defs", {}), SCHEMA: {**schema, "title": SCHEMA}}
    return DescribedProblems(schemas, {status: _answer(status) for status in _STATUSES})


def _answer(status: str) -> dict[str, Any]:
    words, codes_of_the_door = _STATUSES[status]
    codes = sorted({*codes_of_the_door, *(kind.code for kind in _kinds(RotaError) if status_of(kind) == int(status))})
    example = Problem(int(status), codes[0], words).to_dict("/api/tasks")
    content = {"schema": {"$ref": f"#/components/schemas/{SCHEMA}"}, "example": example}
    return {
        "description": f"{words} Codes: {', '.join(f'`{code}`' for code in codes)}.",
        "content": {MEDIA_TYPE: content},
    }


def _kinds(kind: type[RotaError]) -> Iterator[type[RotaError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)
