"""What lists can be narrowed by: the parameters that several of them share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from rota.api.models import NO_NUL

__all__ = ["FailureFilter", "IdFilter", "KeyFilter", "SearchFilter", "TypeFilter", "WordFilter"]

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
