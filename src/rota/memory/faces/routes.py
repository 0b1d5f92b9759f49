"""Users' memories: in numbers for everybody who may look, in words for applications and operators."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query

from rota.access import Role
from rota.api.auth import Viewing
from rota.api.models import NO_NUL, AnswerModel, Moment, PageModel, an_example
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

    model_config = an_example(
        id=7,
        title="",
        text="I live in Oslo.",
        keywords=["home"],
        importance=5,
        details={"role": "user"},
        enable_merge=True,
    )

    id: int
    """Its number."""
    user_id: str
    device_id: str
    agent_id: str
    kind: Kind
    """What it was taken from."""
    state: State
    """Fresh until a compression has looked at it, then kept, or merged into another one."""
    title: str
    """A title, if it has one."""
    text: str
    """What was said, seen or read."""
    keywords: list[str]
    """Words that it is about."""
    importance: int
    """From 0 to 10."""
    details: dict[str, Any]
    """What else came with it, like the role of who said it."""
    created_at: Moment
    """When it was said, seen or read."""
    captured_at: Moment
    """When it was taken on."""
    updated_at: Moment
    compressed_at: Moment | None
    """When a compression has looked at it; null: none has."""
    enable_merge: bool
    """Whether it may be merged with others."""
    has_compression: bool
    """Whether it is the result of a merge."""
    merge_count: int
    """How many were merged into it."""
    merged_into: int | None
    """The context that it was merged into; null: it was not."""
    batch_id: str | None
    """The push that it came with."""
    embedder: str | None
    """What has made its vector; null: it has none yet."""


class LineageModel(ContextModel):
    """A context with what was merged into it, oldest first."""

    sources: list[ContextModel]
    """What was merged into it, the oldest first."""


class FoundModel(ContextModel):
    """A context, and how similar it is to what was looked for."""

    model_config = an_example(similarity=0.83)

    similarity: float
    """From 0 to 1, or a little below 0 for what is about something else."""


class SearchModel(AnswerModel):
    """What was found, the most similar first."""

    items: list[FoundModel]


class FiguresModel(AnswerModel):
    """A memory in numbers."""

    model_config = an_example(
        contexts=40,
        fresh=4,
        kept=30,
        merged=6,
        results=3,
        characters=5120,
        users=1,
        last_captured_at="2026-11-19T08:00:00Z",
        compressions=9,
    )

    contexts: int
    """How many there are."""
    fresh: int
    """How many no compression has looked at yet."""
    kept: int
    """How many were kept."""
    merged: int
    """How many were merged into another one."""
    results: int
    """How many of those kept are the result of a merge."""
    characters: int
    """How long the texts are, all together."""
    users: int
    """How many users they belong to."""
    last_captured_at: Moment | None
    """When the last one was taken on; null if there is none."""
    oldest_fresh_at: Moment | None
    """When the oldest of the fresh ones was taken on."""
    compressions: int
    """How many compressions there were."""


class EverybodyModel(FiguresModel):
    """All users together; `counted_at` is null if there are many contexts and nobody has counted them yet."""

    model_config = an_example(counted_at="2026-11-19T08:00:00Z")

    counted_at: Moment | None
    """When that was counted."""


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
    service: Viewing,
    user_id: UserInPath,
    context_id: Annotated[int, Path(ge=1, le=2**63 - 1, description="The number of the context.")],
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
