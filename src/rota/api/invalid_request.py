"""A request that is not as its description says: what is wrong with it, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, get_args

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel

from rota.api.problems import Problem
from rota.core.task_type import did_you_mean

__all__ = ["invalid_request"]

UNKNOWN: Final = "extra_forbidden"
"""Pydantic's name for a field that a model does not have."""


def invalid_request(request: Request, found: Sequence[Any]) -> Problem:
    """The problem that says so. `found` is what the models have found wrong."""
    errors = [
        {"at": [str(part) for part in each["loc"]], "detail": _detail(request, each).rstrip(".")} for each in found
    ]
    first = errors[0] if errors else {"at": ["body"], "detail": "cannot be read"}
    words = f"{'.'.join(first['at'])}: {first['detail']}"
    words = words if words.endswith("?") else f"{words}."
    return Problem(422, "invalid_request", f"The request is not as it should be. {words}", extra={"errors": errors})


def _detail(request: Request, error: Any) -> str:
    if error["type"] == UNKNOWN:
        _, *way, name = error["loc"]
        known = {field for model in _models_at(request, way) for field in model.model_fields}
        if known:
            return f"There is no field {str(name)[:64]!r} here. {did_you_mean(name, known)}"
    return str(error["msg"])


def _models_at(request: Request, way: Sequence[object]) -> list[type[BaseModel]]:
    """The models of what stands in a body at the end of a way through it: a field's name, a place in a list."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or route.body_field is None:
        return []
    models = list(_models_in(route.body_field.field_info.annotation))
    for step in way:
        fields = [model.model_fields[step] for model in models if isinstance(step, str) and step in model.model_fields]
        # A step that names no field is a place in a list, whose models are known already.
        models = [model for field in fields for model in _models_in(field.annotation)] if fields else models
    return models


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models_in(each)
