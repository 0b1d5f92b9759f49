"""Batches over HTTP: asked for, looked at, followed as their items come, held back and ended; and the way back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from pydantic import AfterValidator

from rota.access import Role
from rota.api.auth import Calling, Viewing, is_still_welcome
from rota.api.filters import IdFilter, TypeFilter
from rota.api.live import ALIVE, RETRY_MS
from rota.api.models import NO_NUL, PageModel
from rota.api.paging import Cursor, Limit, page_shape
from rota.api.paths import key_of
from rota.api.routes.live import EventStream
from rota.api.routing import routes_for
from rota.batches.batch import Batch, BatchStatus, UnknownBatch
from rota.batches.faces.models import (
    EVENT,
    EXAMPLE,
    BatchItemModel,
    BatchModel,
    BatchSubtasksModel,
    BatchSwitchesModel,
    StartBatchRequest,
)
from rota.batches.operator import BatchOperator
from rota.batches.part import BatchesPart
from rota.batches.rows import BatchEvent
from rota.batches.service import Batches, BatchQuery, Switches
from rota.errors import InvalidInput, StoreError

__all__ = ["acting", "governing", "reading"]

PREFIX: Final = "/api/batches"
KNOWN: Final = "Idempotent-Replayed"
"""The header of an answer to a request that was accepted before."""
MAX_NUMBER: Final = 2**31 - 1

reading: Final[APIRouter] = routes_for(Role.VIEWER, tag="batches", prefix=PREFIX)
acting: Final[APIRouter] = routes_for(Role.OPERATOR, tag="batches", prefix=PREFIX)
governing: Final[APIRouter] = routes_for(Role.ADMIN, tag="batches", prefix=PREFIX)

IdInPath = Annotated[
    str,
    Path(
        description="The id of the batch.", min_length=1, max_length=255, json_schema_extra={"pattern": r"^[^\x00]*$"}
    ),
    AfterValidator(key_of),
]


async def _batches(service: Viewing) -> Batches:
    return service.app.host.part(BatchesPart).batches


async def operator_of(service: Viewing, principal: Calling) -> BatchOperator:
    """Acts in the name of whoever was let in."""
    return BatchOperator(service.app, principal)


Known = Annotated[Batches, Depends(_batches)]
At = Annotated[BatchOperator, Depends(operator_of)]


# --- looking ---------------------------------------------------------------------------------------------------------


@reading.get("", operation_id="list_batches", response_model=PageModel[BatchModel])
async def list_batches(
    batches: Known,
    status: BatchStatus | None = None,
    type: TypeFilter = None,  # noqa: A002 - the word of requests
    session_id: Annotated[
        str | None, Query(min_length=1, max_length=255, pattern=NO_NUL, description="Only those of this session.")
    ] = None,
    user_id: IdFilter = None,
    owner: IdFilter = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """A page of batches, newest first."""
    wanted = BatchQuery(status=status, type=type, session_id=session_id, user_id=user_id, owner=owner)
    return page_shape(await batches.list(wanted, limit, cursor), Batch.to_dict)


@reading.get("/switches", operation_id="get_batch_switches", response_model=BatchSwitchesModel)
async def get_batch_switches(batches: Known) -> dict[str, Any]:
    """Whether batches are taken on as usual, and how many are not over yet."""
    return (await batches.switches()).to_dict()


@reading.get("/{id}", operation_id="get_batch", response_model=BatchModel)
async def get_batch(batches: Known, id: IdInPath) -> dict[str, Any]:  # noqa: A002 - the word of the address
    """A batch as it stands."""
    return (await batches.get(id)).to_dict()


@reading.get("/{id}/subtasks", operation_id="list_batch_subtasks", response_model=BatchSubtasksModel)
async def list_batch_subtasks(batches: Known, id: IdInPath) -> dict[str, Any]:  # noqa: A002 - the word of the address
    """Its subtasks, round by round, with what became of each."""
    return {"items": [one.to_dict() for one in await batches.subtasks(id)]}


@reading.get("/{id}/items", operation_id="list_batch_items", response_model=PageModel[BatchItemModel])
async def list_batch_items(
    batches: Known,
    id: IdInPath,  # noqa: A002 - the word of the address
    outcome: Annotated[
        Literal["kept", "duplicate", "invalid", "all"],
        Query(description="Those that are kept, or were dropped, or all."),
    ] = "kept",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """A page of its items, in the order in which they came; those that were dropped too, if they are asked for."""
    page = await batches.items(id, outcome=outcome, limit=limit, cursor=cursor)
    return page_shape(page, lambda item: item.to_dict())


# --- following -------------------------------------------------------------------------------------------------------


@reading.get(
    "/{id}/events",
    operation_id="follow_batch",
    response_class=Response,
    responses={
        200: {
            "content": {"text/event-stream": {"schema": EVENT, "example": EXAMPLE}},
            "description": "What is told about the batch, numbered without a hole, until its end.",
        },
        204: {"description": "It is over, and its last event is the one that came with the request."},
    },
)
async def follow_batch(
    request: Request,
    service: Viewing,
    batches: Known,
    id: IdInPath,  # noqa: A002 - the word of the address
    last_event_id: Annotated[int | None, Header(ge=0, le=MAX_NUMBER, description="The last number seen.")] = None,
    after: Annotated[
        int | None, Query(ge=0, le=MAX_NUMBER, description="The last number, where headers cannot be set.")
    ] = None,
) -> Response:
    """What becomes of a batch, item by item, as it comes. Come back with the last number to miss nothing."""
    # A browser that comes back has the address that it began with: what it has seen since is in the header.
    seen = last_event_id if last_event_id is not None else after or 0
    batch = await batches.get(id)
    if seen > batch.events:
        raise InvalidInput(
            f"The last event is said to be {seen}; the batch has told {batch.events} so far."
            " Use the number of one that came, or 0."
        )
    if seen == batch.events and not batch.status.is_open:
        # Nothing will come any more, and this is how a browser is told not to come back.
        return Response(status_code=204)
    return EventStream(_told(request, service, id, seen), service.feed.closed)


async def _told(request: Request, service: Viewing, batch_id: str, seen: int) -> AsyncGenerator[bytes]:
    """The stream of one listener. It ends with the batch, or when the listener is not welcome any more."""
    heartbeat, clock = service.feed.heartbeat, service.clock
    yield f"retry: {RETRY_MS}\n\n".encode()
    asked = clock.monotonic()
    try:
        work = await service.app.host.part(BatchesPart).work()
        async with aclosing(work.feed.follow(batch_id, seen, patience=heartbeat)) as events:
            async for event in events:
                # Where there is always news there is never a silence to ask in.
                if event is None or clock.monotonic() - asked >= heartbeat:
                    asked = clock.monotonic()
                    if not await is_still_welcome(request):
                        return
                yield ALIVE if event is None else _encoded(event)
    except (StoreError, UnknownBatch):
        # Whoever comes back is told why; here the answer has begun already.
        return


def _encoded(event: BatchEvent) -> bytes:
    return f"id: {event.number}\nevent: {event.event}\ndata: {event.data}\n\n".encode()


# --- acting ----------------------------------------------------------------------------------------------------------


@acting.post(
    "",
    operation_id="start_batch",
    response_model=BatchModel,
    status_code=202,
    responses={
        200: {"model": BatchModel, "description": f"The same request was accepted before; `{KNOWN}: true` says so."}
    },
)
async def start_batch(
    service: Viewing,
    operator: At,
    request: StartBatchRequest,
    response: Response,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=255, description="The same key and body are the same batch.")
    ] = None,
) -> dict[str, Any]:
    """Ask for a number of items. Once this is answered, nothing of it can be lost any more."""
    if idempotency_key is not None and request.idempotency_key not in (None, idempotency_key):
        raise InvalidInput("The header Idempotency-Key and idempotency_key in the body differ. Use one of them.")
    handle = await operator.start(request.wanted(idempotency_key))
    response.headers["Location"] = service.path(f"{PREFIX}/{handle.id}")
    if not handle.is_new:
        response.status_code = 200
        response.headers[KNOWN] = "true"
    return handle.accepted.to_dict()


def _offer(word: str, act: Callable[[BatchOperator, str], Awaitable[Batch]], words: str) -> None:
    """A route for something that is done to one batch."""

    async def carry_out(operator: At, id: IdInPath) -> dict[str, Any]:  # noqa: A002 - the word of the address
        return (await act(operator, id)).to_dict()

    carry_out.__doc__ = words
    acting.add_api_route(
        f"/{{id}}/{word}",
        carry_out,
        methods=["POST"],
        operation_id=f"{word}_batch",
        response_model=BatchModel,
        summary=f"{word} batch".capitalize(),
    )


_offer("pause", BatchOperator.pause, "Begin nothing more of it; what agents have begun comes in.")
_offer("resume", BatchOperator.resume, "Go on.")
_offer("cancel", BatchOperator.cancel, "End it now; what has come stays. One that has ended stays as it is.")


# --- the way back ----------------------------------------------------------------------------------------------------


def _switch(word: str, act: Callable[[BatchOperator], Awaitable[Switches]], words: str) -> None:
    """A route for something that is done to all batches that are asked for from now on."""

    async def carry_out(operator: At) -> dict[str, Any]:
        return (await act(operator)).to_dict()

    carry_out.__doc__ = words
    governing.add_api_route(
        f"/{word}",
        carry_out,
        methods=["POST"],
        operation_id=f"{word}_batches",
        response_model=BatchSwitchesModel,
        summary=f"{word} batches".capitalize(),
    )


_switch("freeze", BatchOperator.freeze, "Take no new batches on; those that are there go on, to their end.")
_switch("degrade", BatchOperator.degrade, "Make each new batch one large call, without subtasks.")
_switch("restore", BatchOperator.restore, "Take batches on as usual.")
