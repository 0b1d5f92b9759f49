"""What the events of a batch carry: the same shapes for whoever sends and whoever reads, on any bus."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from rota.batches.batch import Batch, Subtask
from rota.batches.names import AGGREGATE, CREATED, FINISHED, REQUESTED, SUBMITTED
from rota.codec import warmed
from rota.errors import InvalidInput
from rota.events.envelope import Event

__all__ = [
    "Created",
    "Failed",
    "Requested",
    "Usage",
    "finished",
    "read_answer",
    "read_request",
    "requested",
    "submitted",
]


class Requested(msgspec.Struct, frozen=True, kw_only=True):
    """An agent is asked for items."""

    session_id: str
    task_id: str
    batch_id: str
    agent: str
    type: str
    count: int
    style: str | dict[str, Any] = ""
    priority: int = 5
    index: int = 0
    round: int = 0
    attempt: int = 1
    seed: int = 0
    cost: int = 0
    avoid: list[str] = []


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    tokens_in: int = 0
    tokens_out: int = 0


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """An agent has made items."""

    session_id: str
    task_id: str
    items: list[dict[str, Any]]
    batch_id: str = ""
    attempt: int = 0
    usage: Usage = Usage()
    invalid: int = 0


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """An agent could not make them. `is_final`: no other attempt will do better; `retry_after`: not before so many
    seconds, and it counts as no attempt."""

    session_id: str
    task_id: str
    reason: str
    error: str = ""
    is_final: bool = False
    batch_id: str = ""
    attempt: int = 0
    retry_after: float | None = None


# Once known to msgspec, a struct can be read on any thread (`codec`).
warmed(
    msgspec.json.Decoder(Requested),
    '{"session_id":"s","task_id":"t","batch_id":"b","agent":"a","type":"t","count":1}',
)
warmed(msgspec.json.Decoder(Created), '{"session_id":"s","task_id":"t","items":[{}],"usage":{}}')
warmed(msgspec.json.Decoder(Failed), '{"session_id":"s","task_id":"t","reason":"r"}')


def submitted(batch: Batch, trace: Mapping[str, str]) -> Event:
    """A batch was asked for, within a trace if there is one."""
    payload = {
        "batch_id": batch.id,
        "session_id": batch.session_id,
        "type": batch.type,
        "count": batch.count,
        "style": msgspec.json.decode(batch.style),
        "priority": batch.priority,
    }
    return replace(_event(SUBMITTED, batch, payload, key=batch.id), headers=trace)


def requested(batch: Batch, subtask: Subtask, avoid: list[str], event_id: str) -> Event:
    """The key is the subtask: with that of the session, its subtasks would run one after the other."""
    payload = Requested(
        session_id=batch.session_id,
        task_id=subtask.id,
        batch_id=batch.id,
        agent=batch.agent,
        type=batch.type,
        count=subtask.count,
        style=msgspec.json.decode(batch.style),
        priority=batch.priority,
        index=subtask.index,
        round=subtask.round,
        attempt=subtask.attempt,
        seed=batch.seed,
        cost=subtask.cost,
        avoid=avoid,
    )
    return _event(REQUESTED, batch, msgspec.to_builtins(payload), key=subtask.id, event_id=event_id)


def finished(batch: Batch) -> Event:
    """A batch is over, however it ended."""
    payload = {
        "batch_id": batch.id,
        "session_id": batch.session_id,
        "status": batch.status,
        "reason": batch.reason,
        "count": batch.count,
        "items": batch.items,
        "shortfall": batch.shortfall,
        "failed": batch.failed,
        "tokens_in": batch.tokens_in,
        "tokens_out": batch.tokens_out,
    }
    return _event(FINISHED, batch, payload, key=batch.id)


def _event(event_type: str, batch: Batch, payload: object, *, key: str, event_id: str | None = None) -> Event:
    return Event(
        event_type,
        aggregate_id=batch.session_id,
        aggregate_type=AGGREGATE,
        key=key,
        event_id=event_id,
        correlation_id=batch.correlation_id,
        user_id=batch.user_id,
        payload=payload,
    )


def read_request(event: Event) -> Requested:
    """What an agent is asked for; `InvalidInput` if that is not as agreed."""
    with _as_agreed(event):
        return msgspec.convert(event.payload, Requested)


def read_answer(event: Event) -> Created | Failed:
    """What an agent has answered; `InvalidInput` if that is not as agreed."""
    with _as_agreed(event):
        if event.event_type == CREATED:
            return msgspec.convert(event.payload, Created)
        return msgspec.convert(event.payload, Failed)


@contextmanager
def _as_agreed(event: Event) -> Generator[None]:
    try:
        yield
    except msgspec.MsgspecError as error:
        raise InvalidInput(
            f"The payload of the {event.event_type} {event.event_id} is not as agreed: {error}."
        ) from None
