"""Keyset pages: `items`, and a `cursor` to go on with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

from fastapi import Query

from rota.api.models import NO_NUL
from rota.stores.base import Page

__all__ = ["MAX_LIMIT", "Cursor", "Limit", "page_shape", "sorted_page_shape"]

T = TypeVar("T")

MAX_LIMIT: Final = 200

Cursor = Annotated[
    str | None,
    Query(min_length=1, max_length=2_600, pattern=NO_NUL, description="The cursor of the last page, unchanged."),
]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="At most so many.")]


def page_shape(page: Page[T], shape: Callable[[T], Any]) -> dict[str, Any]:
    """A page as `PageModel` describes it."""
    return {"items": [shape(item) for item in page.items], "cursor": page.cursor}


def sorted_page_shape(page: Page[T], shape: Callable[[T], Any]) -> dict[str, Any]:
    """A page as `SortedPageModel` describes it."""
    return {**page_shape(page, shape), "looked_at": page.looked_at}
