"""The API to read: every operation and every model, made from the description that the service gives of itself."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import Path

from rota.api.problems import Refused
from rota.dashboard.described import Described, Operation
from rota.dashboard.view import Page, View

__all__ = ["models", "of_tag", "show"]

Tag = Annotated[str, Path(max_length=64, description="What the operations are about.")]


async def show(view: View) -> Page:
    """Every operation, in a line."""
    description = _description(view)
    search = (view.given("search") or "").lower().split()
    by_tag = {
        tag: [each for each in operations if all(word in each.search_words for word in search)]
        for tag, operations in description.by_tag().items()
    }
    values = {
        "about": description.about,
        "by_tag": {tag: found for tag, found in by_tag.items() if found},
        "search": view.given("search") or "",
        "problems": description.problems(),
        "same": [("rota openapi", view.call("GET", "/api/openapi.json"))],
    }
    return Page("docs.html", "API", values)


async def of_tag(view: View, tag: Tag) -> Page:
    """The operations about one thing, whole."""
    by_tag = _description(view).by_tag()
    if tag not in by_tag:
        raise Refused(404, "not_found", f"No operation is about {tag!r}. The page of the API lists what there is.")
    operations = by_tag[tag]
    values = {"operations": operations, "curls": {each.id: _curl(view, each) for each in operations}}
    return Page("docs_operations.html", f"API: {tag.replace('-', ' ')}", values, within="docs")


async def models(view: View) -> Page:
    """What goes in and out."""
    return Page("docs_models.html", "API: models", {"models": _description(view).models()}, within="docs")


def _description(view: View) -> Described:
    return Described(view.request.app.openapi())


def _curl(view: View, operation: Operation) -> str:
    example = operation.body_example
    body = None if example is None else json.dumps(json.loads(example), ensure_ascii=False)
    return view.call(operation.method, operation.example_path, body)
