"""Batches for agents: two tools of the MCP server. A group asks for batches, and sees its own.

Descriptions speak to the model that calls. Whose batch it is, is never among the arguments.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from rota.batches.batch import Batch, BatchStatus, UnknownBatch
from rota.batches.operator import BatchOperator
from rota.batches.part import batches_of
from rota.batches.request import BatchRequest
from rota.batches.service import Batches
from rota.clock import parse_duration
from rota.part import AgentTool, ToolCaller

__all__ = ["TOOLS", "BatchAnswer", "batch_status", "start_batch"]

MOST: Final = 200
LONGEST_WAIT: Final = 30


class ItemAnswer(BaseModel):
    """One item."""

    name: str
    fields: dict[str, Any] = Field(description="What else there is about it, like a description.")


class BatchAnswer(BaseModel):
    """One batch, and some of its items."""

    message: str = Field(description="How it stands, in words.")
    batch_id: str = Field(description="The id, for batch_status.")
    status: str = Field(description="running, paused, completed, failed or cancelled.")
    reason: str | None = Field(description="Why it ended with fewer items: deadline, budget or exhausted.")
    type: str
    count: int = Field(description="How many items were asked for.")
    made: int = Field(description="How many there are.")
    subtasks: int = Field(description="The pieces that it was split into.")
    subtasks_done: int
    subtasks_failed: int
    items: list[ItemAnswer]
    cursor: str | None = Field(description="Give it to batch_status for the items after these; null if there are none.")


async def start_batch(
    caller: ToolCaller,
    type: Annotated[  # noqa: A002 - the word of requests
        str,
        Field(
            min_length=1,
            max_length=64,
            description="What to make: character_name, location_name, item, skill, organization, or a type of this"
            " installation's own.",
        ),
    ],
    count: Annotated[int, Field(ge=1, le=10_000, description="How many; 500 is the usual limit.")],
    style: Annotated[str, Field(max_length=4_000, description="What they should be like, in a few words.")] = "",
    priority: Annotated[int, Field(ge=0, le=10, description="10 comes first; 5 is usual.")] = 5,
    deadline: Annotated[
        str | None, Field(max_length=32, description="When to stop with what there is, like '10m'; 1s to 1d.")
    ] = None,
    wait_seconds: Annotated[
        float, Field(ge=0, le=LONGEST_WAIT, description="Wait for the items so long; the answer has what came by then.")
    ] = 0,
) -> BatchAnswer:
    """Have a number of items made (names, places, skills), all different, in the background. The answer has the id; ask
    batch_status for the items, or wait a while here."""
    owner = _owner(caller)
    request = BatchRequest(
        type=type,
        count=count,
        style=style,
        session_id=owner,
        priority=priority,
        deadline_ms=None if deadline is None else parse_duration(deadline, what="deadline"),
    )
    handle = await BatchOperator(caller, caller.principal).start(request, owner=owner)
    if wait_seconds:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds), aclosing(handle.events()) as events:
                async for _ in events:
                    pass
    return await _answer(batches_of(caller), await handle.status(), MOST, None)


async def batch_status(
    caller: ToolCaller,
    batch_id: Annotated[str, Field(min_length=1, max_length=255, description="The batch_id that start_batch gave.")],
    limit: Annotated[int, Field(ge=1, le=MOST, description="How many items at most.")] = 50,
    cursor: Annotated[
        str | None, Field(max_length=32, description="From the last answer, for the items after those.")
    ] = None,
) -> BatchAnswer:
    """How a batch of this group stands, and its items so far."""
    return await _answer(batches_of(caller), await _own_batch(caller, batch_id), limit, cursor)


async def _own_batch(caller: ToolCaller, batch_id: str) -> Batch:
    """A batch of the caller's group. What belongs to somebody else looks like nothing at all."""
    with suppress(UnknownBatch):
        batch = await batches_of(caller).get(batch_id)
        if batch.owner == _owner(caller):
            return batch
    raise UnknownBatch(f"No batch has the id {batch_id!r}. Use the batch_id that start_batch gave.")


def _owner(caller: ToolCaller) -> str:
    return f"agent:{caller.group}"


async def _answer(batches: Batches, batch: Batch, limit: int, cursor: str | None) -> BatchAnswer:
    page = await batches.items(batch.id, limit=limit, cursor=cursor)
    return BatchAnswer(
        message=_in_words(batch),
        batch_id=batch.id,
        status=batch.status,
        reason=batch.reason,
        type=batch.type,
        count=batch.count,
        made=batch.items,
        subtasks=batch.expected,
        subtasks_done=batch.done,
        subtasks_failed=batch.failed,
        items=[ItemAnswer(name=item.name, fields=item.fields) for item in page.items],
        cursor=page.cursor,
    )


def _in_words(batch: Batch) -> str:
    made = f"{batch.items} of {batch.count} are there"
    match batch.status:
        case BatchStatus.RUNNING:
            return f"It is being made: {made}. Ask batch_status again in a while."
        case BatchStatus.PAUSED:
            return f"It is held back by the owner: {made}."
        case BatchStatus.COMPLETED if batch.shortfall == 0:
            return f"It is complete: {made}."
        case _:
            why = "" if batch.reason is None else f" ({batch.reason})"
            return f"It has ended{why}, {batch.status}: {made}, and no more come."


TOOLS: Final = (
    AgentTool(
        name="start_batch",
        title="Have a batch of items made",
        function=start_batch,
        example='{"type": "location_name", "count": 20, "style": "norse, by the sea", "wait_seconds": 20}',
    ),
    AgentTool(
        name="batch_status",
        title="Show a batch and its items",
        function=batch_status,
        example='{"batch_id": "01a1eb4d-9e10-7c1a-be35-9b5ca80650f6"}',
        reads=True,
    ),
)
