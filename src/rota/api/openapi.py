"""The description of the API: precise enough to test against and to make a client from, with the role that each
operation needs and an example of what goes in and out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from rota.api.examples import Examples
from rota.api.problem_models import described_problems
from rota.api.routing import role_of
from rota.api.vocabulary import FILTERS, WORDS

__all__ = ["describe"]

ROLE: Final = "x-rota-role"
JSON: Final = "application/json"
METHODS: Final = ("get", "put", "post", "patch", "delete")
ABOUT: Final = (
    "Everything is JSON (UTF-8). A request shows a token: `Authorization: Bearer rota_...`. Unknown fields and"
    " parameters are refused. Every answer that is no success is a problem (RFC 9457), whose `code` never changes its"
    " meaning. Lists come in pages: ask for the next one with the `cursor` of the last."
)
PAGE: Final = "One page of a list. It may hold few items or none and yet have a cursor; only one without is the last."


def describe(api: FastAPI, base_path: str, routers: Callable[[], Sequence[APIRouter]]) -> None:
    """Make `api.openapi()` give the description of these routers. It is made when it is first asked for."""

    @cache
    def openapi() -> dict[str, Any]:
        routes = [route for router in routers() for route in router.routes if isinstance(route, APIRoute)]
        return _describe(base_path, routes)

    api.openapi = openapi  # pyright: ignore[reportAttributeAccessIssue] -- the documented way to extend it


def _describe(base_path: str, routes: Sequence[APIRoute]) -> dict[str, Any]:
    described = get_openapi(
        title="Rota",
        version=version("rota"),
        summary="The background scheduler for AI applications.",
        description=ABOUT,
        routes=routes,
        servers=[{"url": base_path or "/"}],
    )
    components: dict[str, Any] = described.setdefault("components", {})
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "A token made by `rota token add`."},
    }
    schemas: dict[str, Any] = components.setdefault("schemas", {})
    problems = described_problems()
    schemas.update(problems.schemas)
    components["responses"] = problems.responses
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for route in routes:
        for method in route.methods or ():
            _complete(described["paths"][route.path_format][method.lower()], route, problems.responses)
    _tell_fields(schemas)
    _show_examples(described)
    return described


def _complete(operation: dict[str, Any], route: APIRoute, problems: Mapping[str, Any]) -> None:
    role = role_of(route)
    operation[ROLE] = "none" if role is None else role.value
    operation["security"] = [] if role is None else [{"token": []}]
    operation["summary"] = str(operation["operationId"]).replace("_", " ").capitalize()
    responses: dict[str, Any] = operation["responses"]
    responses.pop("422", None)
    for status in problems:
        responses.setdefault(status, {"$ref": f"#/components/responses/{status}"})
    for parameter in operation.get("parameters", ()):
        _tell_parameter(parameter)


def _tell_parameter(parameter: dict[str, Any]) -> None:
    name = parameter["name"]
    says = parameter.get("description") or FILTERS.get(name) or (WORDS[name].says if name in WORDS else None)
    if says is not None:
        parameter["description"] = says


def _tell_fields(schemas: Mapping[str, dict[str, Any]]) -> None:
    """Say what a field's name says, where the field has no words of its own."""
    for schema in schemas.values():
        if "PageModel[" in schema.get("title", ""):
            schema.setdefault("description", PAGE)
        for name, field in schema.get("properties", {}).items():
            if name in WORDS:
                field.setdefault("description", WORDS[name].says)


def _show_examples(described: Mapping[str, Any]) -> None:
    """Beside every parameter, every body and every answer, unless its route has one of its own."""
    examples = Examples(described["components"]["schemas"])
    for operation in _operations(described):
        for parameter in operation.get("parameters", ()):
            shown = examples.of(parameter["schema"], parameter["name"])
            if shown is not None:
                parameter.setdefault("example", shown)
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        answers = [answer for answer in operation["responses"].values() if "$ref" not in answer]
        for said in (*bodies, *answers):
            content = said.get("content", {}).get(JSON)
            if content is not None:
                content.setdefault("example", examples.of(content["schema"]))


def _operations(described: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in described["paths"].values():
        yield from (operation for method, operation in methods.items() if method in METHODS)
