"""What goes in and out about batches over HTTP; the names are those of `to_dict`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from rota.api.models import AnswerModel, Duration, Json, Moment, Priority, RequestModel, Text, TypeName
from rota.batches.batch import BatchStatus, EndReason, SubtaskStatus
from rota.batches.request import MAX_SEED, BatchRequest
from rota.clock import parse_duration

__all__ = [
    "EVENT",
    "BatchItemModel",
    "BatchModel",
    "BatchSubtaskModel",
    "BatchSubtasksModel",
    "BatchSwitchesModel",
    "ResumeRequest",
    "StartBatchRequest",
]


class ResumeRequest(RequestModel):
    """Who goes on at the end of a batch. Without a callback nobody is called: whoever waits asks for the handle."""

    flow_run_id: Text | None = None
    callback: dict[str, Json] | None = Field(
        default=None, description='{"kind": "webhook", "url": ..., "secret": ...} or {"kind": "prefect"}.'
    )


class StartBatchRequest(RequestModel):
    """A number of items of a type, in a style."""

    type: TypeName
    count: Annotated[int, Field(ge=1, le=10_000, description="At most `batches.max_count` of the configuration.")]
    style: str | dict[str, Json] = Field(default="", description="A text or an object, of at most 4,096 bytes of JSON.")
    session_id: Text | None = Field(default=None, description="Whom it is for; without one it is its own session.")
    user_id: Text | None = None
    priority: Priority = 5
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] | None = None
    distinct: Literal["batch", "session"] = Field(
        default="batch", description="Among which items no two may be alike: the batch's, or the whole session's."
    )
    deadline: Duration | None = None
    budget_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None
    correlation_id: Text | None = None
    resume: ResumeRequest | None = None
    idempotency_key: Text | None = Field(default=None, description="The same as the header `Idempotency-Key`.")

    def wanted(self, idempotency_key: str | None) -> BatchRequest:
        """The request as batches know it; with the key that came in the header, if none is in the body."""
        given: dict[str, Any] = self.model_dump(exclude={"deadline", "idempotency_key", "resume"})
        return BatchRequest(
            **given,
            deadline_ms=None if self.deadline is None else parse_duration(self.deadline, what="deadline"),
            idempotency_key=self.idempotency_key or idempotency_key,
            resume=None if self.resume is None else self.resume.model_dump(exclude_none=True),
        )


class BatchCountsModel(AnswerModel):
    """The subtasks of a batch, of all rounds, and how many of them have ended, well or not."""

    expected: int
    done: int
    failed: int


class BatchModel(AnswerModel):
    """A batch. `items` have come and are kept; `reason` says why it ended with less than was asked for."""

    id: str
    status: BatchStatus
    reason: EndReason | None
    type: str
    agent: str
    count: int
    style: Json
    session_id: str
    user_id: str | None
    owner: str
    priority: int
    seed: int
    distinct: Literal["batch", "session"]
    items: int
    shortfall: int
    duplicates: int
    invalid: int
    late: int
    subtasks: BatchCountsModel
    rounds: int
    tokens_in: int
    tokens_out: int
    budget_tokens: int | None
    correlation_id: str
    idempotency_key: str | None
    created_at: Moment
    deadline_at: Moment
    first_at: Moment | None
    first_response_ms: int | None
    ended_at: Moment | None
    took_ms: int | None


class BatchSubtaskModel(AnswerModel):
    """One subtask: so many items, asked for in one call."""

    id: str
    index: int
    round: int
    count: int
    status: SubtaskStatus
    attempt: int
    errors: int
    kept: int
    error_class: str | None
    error: str | None
    created_at: Moment
    dispatched_at: Moment | None
    ended_at: Moment | None


class BatchSubtasksModel(AnswerModel):
    """All subtasks of a batch, round by round."""

    items: list[BatchSubtaskModel]


class BatchItemModel(AnswerModel):
    """One item as it came. `twin` is what a duplicate is too much like, or what is wrong with an invalid one."""

    number: int
    name: str
    fields: dict[str, Json]
    outcome: Literal["kept", "duplicate", "invalid"]
    twin: str | None
    subtask_id: str
    at: Moment


class BatchSwitchesModel(AnswerModel):
    """What an operator has set, and how many batches are not over yet."""

    frozen: bool
    degraded: bool
    open: int


EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "event": {"enum": ["accepted", "item", "first_response", "progress", "completed", "failed", "cancelled"]},
        "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": {"type": "object"}},
    },
}
"""One event of a batch; an item has its name and its fields, the others say how far the batch is."""
