"""Users' memories: in numbers for everybody who may look, in words for applications and operators."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query

from rota.access import Role
from rota.api.auth import Viewing
from rota.api.models import NO_NUL, AnswerModel, Moment, PageModel
from rota.api.paging import Cursor, Limit
from rota.api.paths import UserInPath
from rota.api.problems import Refused
from rota.api.routing import routes_for
from rota.memory import Scope, State, memory_of
from rota.memory.context import Kind
from rota.memory.contexts import cursor_of
from rota.memory.search import MAX_FOUND

__all__ = ["reading", "router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="memory", prefix="/api/memory")
reading: Final[APIRouter] = routes_for(Role.OPERATOR, tag="memory", prefix="/api/memory")


class ContextModel(AnswerModel):
    """One context. `state`: fresh until a compression has looked at it, then kept, or merged into another one."""

    id: int
    user_id: str
    device_id: str
    agent_id: str
    kind: Kind
    state: State
    title: str
    text: str
    keywords: list[str]
    importance: int
    details: dict[str, Any]
    created_at: Moment
    captured_at: Moment
    updated_at: Moment
    compressed_at: Moment | None
    enable_merge: bool
    has_compression: bool
    merge_count: int
    merged_into: int | None
    batch_id: str | None
    embedder: str | None


class LineageModel(ContextModel):
    """A context with what was merged into it, oldest first."""

    sources: list[ContextModel]


class FoundModel(ContextModel):
    """A context, and how similar it is to what was looked for."""

    similarity: float


class SearchModel(AnswerModel):
    """What was found, the most similar first."""

    items: list[FoundModel]


class FiguresModel(AnswerModel):
    """A memory in numbers."""

    contexts: int
    fresh: int
    kept: int
    merged: int
    results: int
    characters: int
    users: int
    last_captured_at: Moment | None
    oldest_fresh_at: Moment | None
    compressions: int


class EverybodyModel(FiguresModel):
    """All users together; `counted_at` is null if there are many contexts and nobody has counted them yet."""

    counted_at: Moment | None


@router.get("/stats", operation_id="get_memory_stats", response_model=EverybodyModel)
async def get_memory_stats(service: Viewing) -> dict[str, object]:
    """All memories together: counted now if there are few contexts, else as they were last counted, once an hour."""
    return await memory_of(service.app).statistics()


@reading.get("/{user_id}/stats", operation_id="get_user_memory_stats", response_model=FiguresModel)
async def get_user_memory_stats(service: Viewing, user_id: UserInPath) -> dict[str, object]:
    """One user's memory in numbers, counted now."""
    return (await memory_of(service.app).figures(user_id)).to_dict()


@reading.get("/{user_id}/contexts", operation_id="list_contexts", response_model=PageModel[ContextModel])
async def list_contexts(
    service: Viewing,
    user_id: UserInPath,
    state: Annotated[State | None, Query(description="Only those in this state.")] = None,
    results: Annotated[bool, Query(description="Only those that others were merged into.")] = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """A page of a user's contexts, newest first."""
    contexts = await memory_of(service.app).contexts()
    page = await contexts.page(
        Scope(user_id),
        states=() if state is None else (state,),
        only_results=results,
        limit=limit,
        cursor=cursor_of(cursor),
    )
    following = None if page.cursor is None else str(page.cursor)
    return {"items": [context.to_dict() for context in page.contexts], "cursor": following}


@reading.get("/{user_id}/contexts/{context_id}", operation_id="get_context", response_model=LineageModel)
async def get_context(
    service: Viewing, user_id: UserInPath, context_id: Annotated[int, Path(ge=1, le=2**63 - 1)]
) -> dict[str, object]:
    """One context with what was merged into it."""
    found = await memory_of(service.app).lineage(user_id, context_id)
    if found is None:
        raise Refused(
            404, "unknown_context", f"{user_id!r} has no context {context_id}: it never was, or its retention ended."
        )
    return found.to_dict()


@reading.get("/{user_id}/search", operation_id="search_memory", response_model=SearchModel)
async def search_memory(
    service: Viewing,
    user_id: UserInPath,
    text: Annotated[
        str, Query(min_length=1, max_length=10_000, pattern=NO_NUL, description="What it should be about.")
    ],
    limit: Annotated[int, Query(ge=1, le=MAX_FOUND, description="At most so many.")] = 10,
) -> dict[str, Any]:
    """What a user has said, seen or read that is most similar to a text."""
    found = await memory_of(service.app).search(user_id, text, limit=limit)
    return {"items": [one.to_dict() for one in found]}
