"""One user's data: all of it, or none of it any more."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

import msgspec
from fastapi import APIRouter
from pydantic import ConfigDict
from starlette.responses import StreamingResponse

from rota.access import Role
from rota.api.auth import Acting, Viewing
from rota.api.models import AnswerModel, Moment, an_example
from rota.api.paths import UserInPath
from rota.api.problems import Refused
from rota.api.routing import routes_for
from rota.app.operator import Operator
from rota.app.results import RunInfo, TaskDetails
from rota.clock import isoformat
from rota.core.task import RunRecord
from rota.stores.base import Erasure, Snapshot

__all__ = ["exported", "router"]

router: Final[APIRouter] = routes_for(Role.ADMIN, tag="users")

NDJSON: Final = "application/x-ndjson"
LINE: Final = '{"kind":"task","task_type":"memory_compression","key":"u1:phone:default","task":null,"past":{}}\n'
Known = Snapshot | RunRecord | Mapping[str, object]


class ErasureModel(AnswerModel):
    """The removal of what is known of a user."""

    model_config = an_example(asked_at="2026-11-19T08:30:00Z", tasks=2, runs=120, running=0)

    user_id: str
    asked_at: Moment
    """When it was asked for."""
    tasks: int
    """How many tasks are gone."""
    runs: int
    """How many records of runs are gone."""
    running: int
    """How many runs still have to end."""
    done_at: Moment | None
    """When everything was gone; null: it is not yet."""


class ErasedModel(ErasureModel):
    """The same, and how much of what each part kept is gone, by what it is called: that goes at once."""

    model_config = ConfigDict(extra="allow") | an_example(contexts=40)
    __pydantic_extra__: dict[str, int]  # pyright: ignore[reportIncompatibleVariableOverride]  # as pydantic has it

    contexts: int
    """How many memories are gone."""


@router.get(
    "/users/{user_id}/export",
    operation_id="export_user",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {NDJSON: {"schema": {"type": "string"}, "example": LINE}},
            "description": "One JSON object a line.",
        }
    },
)
async def export_user(operator: Acting, user_id: UserInPath) -> StreamingResponse:
    """All that is known of a user: tasks, what is remembered of them, runs, and their memory."""
    return await exported(operator, user_id)


async def exported(operator: Operator, user_id: str, headers: Mapping[str, str] | None = None) -> StreamingResponse:
    """All that is known of a user as a stream of lines."""
    items = operator.export_user(user_id)
    # The first one is fetched before the answer begins, so that a store that is away is an error and not an empty file.
    first = await anext(items, None)
    return StreamingResponse(_lines(first, items), media_type=NDJSON, headers=headers)


async def _lines(first: Known | None, items: AsyncGenerator[Known]) -> AsyncGenerator[bytes]:
    # Closed here: whoever hangs up must not leave it, and its entry in the audit log, to the garbage collector.
    async with aclosing(items):
        if first is not None:
            yield _line(first)
        async for item in items:
            yield _line(item)


def _line(item: Known) -> bytes:
    if isinstance(item, Mapping):
        return msgspec.json.encode(item) + b"\n"
    if isinstance(item, RunRecord):
        return msgspec.json.encode({"kind": "run", **RunInfo.of(item).to_dict()}) + b"\n"
    past = {
        name: isoformat(value) if name.endswith("_at") and isinstance(value, int) else msgspec.to_builtins(value)
        for name, value in msgspec.structs.asdict(item.past).items()
    }
    task = None if item.task is None else TaskDetails.of(item.task).to_dict()
    known = {"kind": "task", "task_type": item.identity.task_type, "key": item.identity.key, "task": task, "past": past}
    return msgspec.json.encode(known) + b"\n"


@router.delete("/users/{user_id}", operation_id="erase_user", response_model=ErasedModel, status_code=202)
async def erase_user(operator: Acting, user_id: UserInPath) -> dict[str, object]:
    """Remove all that is known of a user, memory included. What still runs is told to stop, and removed at its end."""
    erased = await operator.erase_user(user_id)
    return {**erasure_shape(erased.erasure), **erased.kept}


@router.get("/users/{user_id}/erasure", operation_id="get_erasure", response_model=ErasureModel)
async def get_erasure(service: Viewing, user_id: UserInPath) -> dict[str, object]:
    """How far the removal of a user's data is."""
    store = await service.app.store()
    found = [erasure for erasure in await store.erasures() if erasure.user_id == user_id]
    if not found:
        raise Refused(
            404, "unknown_erasure", f"Nothing of {user_id!r} is being erased: nobody asked for it, or it is done."
        )
    return erasure_shape(found[0])


def erasure_shape(erasure: Erasure) -> dict[str, object]:
    """An erasure as `ErasureModel` describes it."""
    times = {"asked_at": isoformat(erasure.asked_at), "done_at": isoformat(erasure.done_at)}
    return {**msgspec.structs.asdict(erasure), **times}
