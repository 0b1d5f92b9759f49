"""What lists can be narrowed by: the parameters that several of them share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from rota.api.models import NO_NUL
from rota.stores.base import RunSort, TaskSort

__all__ = [
    "FailureFilter",
    "IdFilter",
    "KeyFilter",
    "RunSortChoice",
    "SearchFilter",
    "SinceFilter",
    "TaskSortChoice",
    "TypeFilter",
    "UntilFilter",
    "WordFilter",
]

TypeFilter = Annotated[str | None, Query(pattern="^[a-z][a-z0-9_]*$", max_length=64, description="Of this type.")]
IdFilter = Annotated[str | None, Query(min_length=1, max_length=255, pattern=NO_NUL)]
KeyFilter = Annotated[str | None, Query(min_length=1, max_length=2_400, pattern=NO_NUL)]
WordFilter = Annotated[str | None, Query(min_length=1, max_length=2_700, pattern=NO_NUL)]
SearchFilter = Annotated[
    str | None, Query(min_length=1, max_length=255, pattern=NO_NUL, description="In the key or the user id.")
]
FailureFilter = Annotated[
    str | None,
    Query(pattern="^[0-9a-z]{1,40}$", description="Of this group of failures.", examples=["1ff5d5bf2d3e"]),
]
_WHEN = "ISO 8601 (without an offset: wall clock in the configured zone), or how long ago, like `2h`."
SinceFilter = Annotated[
    str | None,
    Query(min_length=1, max_length=64, pattern=NO_NUL, description=f"From then on. {_WHEN}", examples=["2h"]),
]
UntilFilter = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=64,
        pattern=NO_NUL,
        description=f"Before then. {_WHEN}",
        examples=["2099-11-01T09:00:00Z"],
    ),
]
TaskSortChoice = Annotated[
    TaskSort,
    Query(
        description="The order; with a minus the other way round. By `key` all pages have an end; any other order is"
        " that of so many tasks as `looked_at` says.",
        examples=["-changed"],
    ),
]
RunSortChoice = Annotated[
    RunSort,
    Query(
        description="The order. Newest first (`-ended`) all pages have an end; any other order is that of so many of"
        " the newest runs as `looked_at` says.",
        examples=["-duration"],
    ),
]
