"""The description of the API: precise enough to test against, with the role that each operation needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from rota.api.models import AnswerModel
from rota.api.problems import MEDIA_TYPE
from rota.api.routing import role_of

__all__ = ["describe"]


ROLE: Final = "x-rota-role"
_PROBLEMS: Final[Mapping[str, str]] = {
    "400": "The address or a header cannot be used.",
    "401": "No valid token came with the request.",
    "403": "The role is not enough, or the request comes from another site.",
    "404": "There is no such thing.",
    "409": "Its state does not allow this now. Nothing was changed.",
    "413": "The body is too large.",
    "415": "The body is no JSON.",
    "422": "A value cannot be used.",
    "429": "Too many attempts.",
    "503": "The store cannot be reached.",
}


class ReasonModel(AnswerModel):
    """One thing that is wrong with a request."""

    at: list[str]
    detail: str


class ProblemModel(AnswerModel):
    """Problem details (RFC 9457). `code` is stable; programs may switch on it."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    instance: str
    errors: list[ReasonModel] | None = None
    matched: int | None = None
    field: str | None = None


def describe(api: FastAPI, base_path: str, routers: Callable[[], Sequence[APIRouter]]) -> None:
    """Make `api.openapi()` give the description of these routers. It is made when it is first asked for."""

    @cache
    def openapi() -> dict[str, Any]:
        routes = [route for router in routers() for route in router.routes if isinstance(route, APIRoute)]
        return _describe(base_path, routes)

    api.openapi = openapi  # pyright: ignore[reportAttributeAccessIssue] -- the documented way to extend it


def _describe(base_path: str, routes: Sequence[APIRoute]) -> dict[str, Any]:
    schema = get_openapi(
        title="Rota",
        version=version("rota"),
        summary="The background scheduler for AI applications.",
        routes=routes,
        servers=[{"url": base_path or "/"}],
    )
    components: dict[str, Any] = schema.setdefault("components", {})
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "A token made by `rota token add`."},
    }
    problem = ProblemModel.model_json_schema(ref_template="#/components/schemas/{model}")
    components.setdefault("schemas", {}).update(problem.pop("$defs", {}), Problem=problem)
    for route in routes:
        for method in route.methods or ():
            _complete(schema["paths"][route.path_format][method.lower()], route)
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    return schema


def _complete(operation: dict[str, Any], route: APIRoute) -> None:
    role = role_of(route)
    operation[ROLE] = "none" if role is None else role.value
    operation["security"] = [] if role is None else [{"token": []}]
    responses: dict[str, Any] = operation["responses"]
    responses.pop("422", None)
    for status, words in _PROBLEMS.items():
        responses.setdefault(
            status,
            {
                "description": words,
                "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        )
