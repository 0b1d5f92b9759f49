"""`GET /api/live`: the live feed as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.types import Receive, Scope, Send

from rota.access import Role
from rota.api.auth import Viewing, is_still_welcome
from rota.api.models import NO_NUL
from rota.api.routing import routes_for

__all__ = ["EventStream", "router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="live")

EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "What to come back with."},
        "event": {"enum": ["snapshot", "changed"], "description": "Everything, or what is different."},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {
                "type": "object",
                "properties": {
                    "types": {"type": "array", "items": {"type": "string"}, "description": "What is different."},
                    "counts": {"type": "object", "description": "The new counters of these types."},
                    "alerts": {"type": "integer", "description": "How many alerts fire."},
                    "badges": {
                        "type": "object",
                        "additionalProperties": {"type": "integer"},
                        "description": "How many wait, by the entry of the menu.",
                    },
                    "instances": {"type": "integer", "description": "How many processes are at work."},
                    "is_store_away": {"type": "boolean", "description": "What is told is old."},
                },
            },
        },
    },
}
"""One event: which types changed, and their counts. A snapshot has all of them."""
EXAMPLE: Final = """id: 3f9c1a20-17
event: changed
data: {"types":["report"],"counts":{"report":{"pending":3}},"alerts":0,"instances":2,"is_store_away":false}

"""


@router.get(
    "/live",
    operation_id="follow_changes",
    response_class=Response,
    responses={
        200: {
            "content": {"text/event-stream": {"schema": EVENT, "example": EXAMPLE}},
            "description": "Numbered events, `snapshot` and `changed`. Come back with the last id to miss none.",
        }
    },
)
async def follow_changes(
    request: Request,
    service: Viewing,
    last_event_id: Annotated[str | None, Header(max_length=64, description="The id of the last event seen.")] = None,
    after: Annotated[
        str | None, Query(max_length=64, pattern=NO_NUL, description="The last id, where headers cannot be set.")
    ] = None,
) -> Response:
    """What changes, as it changes."""

    async def is_welcome() -> bool:
        return await is_still_welcome(request)

    return EventStream(service.feed.listen(last_event_id or after, is_welcome=is_welcome), service.feed.closed)


class EventStream(Response):
    """Sends a stream of events until it ends, `closed` is set or the client has gone."""

    media_type = "text/event-stream"

    def __init__(self, chunks: AsyncGenerator[bytes], closed: asyncio.Event) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._chunks = chunks
        self._closed = closed
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._chunks):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            # One task sends, the others notice that the client has gone or the service ends, which a silent stream
            # would not.
            sending = asyncio.ensure_future(self._send_all(send))
            leaving = asyncio.ensure_future(_until_gone(receive))
            closing = asyncio.ensure_future(self._closed.wait())
            is_gone = True
            try:
                await asyncio.wait([sending, leaving, closing], return_when=asyncio.FIRST_COMPLETED)
                is_gone = leaving.done()
            finally:
                for task in (sending, leaving, closing):
                    task.cancel()
                results = await asyncio.gather(sending, leaving, closing, return_exceptions=True)
            _raise_if_broken(results)
            if not is_gone:
                with suppress(OSError):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        async for chunk in self._chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})


def _raise_if_broken(results: Iterable[object]) -> None:
    for result in results:
        # A client that goes away in the middle of a chunk is no error of ours.
        if isinstance(result, Exception) and not isinstance(result, OSError):
            raise result


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
