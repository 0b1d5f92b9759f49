"""What goes in and out about batches over HTTP; the names are those of `to_dict`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from rota.api.models import AnswerModel, Duration, Json, Moment, Priority, RequestModel, Text, TypeName, an_example
from rota.batches.batch import BatchStatus, EndReason, SubtaskStatus
from rota.batches.request import MAX_SEED, BatchRequest
from rota.clock import parse_duration

__all__ = [
    "EVENT",
    "EXAMPLE",
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
    """The flow that goes on, for `prefect`."""
    callback: dict[str, Json] | None = Field(
        default=None, description='{"kind": "webhook", "url": ..., "secret": ...} or {"kind": "prefect"}.'
    )


class StartBatchRequest(RequestModel):
    """A number of items of a type, in a style."""

    model_config = an_example(type="location_name", count=50, style="norse, by the sea", deadline="5m")

    type: TypeName
    """The kind of the items, like `location_name`."""
    count: Annotated[int, Field(ge=1, le=10_000, description="At most `batches.max_count` of the configuration.")]
    style: str | dict[str, Json] = Field(default="", description="A text or an object, of at most 4,096 bytes of JSON.")
    session_id: Text | None = Field(default=None, description="Whom it is for; without one it is its own session.")
    user_id: Text | None = None
    priority: Priority = 5
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] | None = None
    """The same seed gives the same items, where the agent can do that."""
    distinct: Literal["batch", "session"] = Field(
        default="batch", description="Among which items no two may be alike: the batch's, or the whole session's."
    )
    deadline: Duration | None = None
    """How long it may take; then it ends with what has come."""
    budget_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None
    """End it when it has used so many tokens."""
    correlation_id: Text | None = None
    resume: ResumeRequest | None = None
    """Who goes on when it ends."""
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

    model_config = an_example(expected=5, done=2, failed=0)

    expected: int
    """How many there are."""
    done: int
    """How many have ended well."""
    failed: int
    """How many were given up."""


class BatchModel(AnswerModel):
    """A batch. `items` have come and are kept; `reason` says why it ended with less than was asked for."""

    model_config = an_example(
        id="01a1eb4d-9e10-7c1a-be35-9b5ca80650f6",
        type="location_name",
        agent="offline",
        count=50,
        style="norse, by the sea",
        session_id="s1",
        owner="token:1882da2d",
        seed=7,
        items=20,
        shortfall=30,
        rounds=1,
        tokens_in=900,
        tokens_out=2100,
    )

    id: str
    """What it is called."""
    status: BatchStatus
    """Where it stands in its life."""
    reason: EndReason | None
    """Why it ended with less than was asked for; null if it did not."""
    type: str
    """The kind of its items."""
    agent: str
    """Who makes the items."""
    count: int
    """How many were asked for."""
    style: Json
    """What they are to be like: a text, or an object."""
    session_id: str
    """Whom it is for: batches of one session share its limits."""
    user_id: str | None
    owner: str
    priority: int
    """From 0 to 10; what has more goes first."""
    seed: int
    """The same seed gives the same items, where the agent can do that."""
    distinct: Literal["batch", "session"]
    """Among which items no two may be alike."""
    items: int
    """How many have come and are kept."""
    shortfall: int
    """How many are missing to what was asked for."""
    duplicates: int
    """How many came that were too much like another one."""
    invalid: int
    """How many came that could not be used."""
    late: int
    """How many came when nobody needed them any more."""
    subtasks: BatchCountsModel
    """The calls that it was split into."""
    rounds: int
    """How often it was split: what was missing is asked for again."""
    tokens_in: int
    """How many tokens were sent to the model."""
    tokens_out: int
    """How many tokens the model sent."""
    budget_tokens: int | None
    """It ends when it has used so many tokens; null: it may use any number."""
    correlation_id: str
    idempotency_key: str | None
    """The key that the request came with."""
    created_at: Moment
    deadline_at: Moment
    """It ends then with what has come."""
    first_at: Moment | None
    """When there were enough items to begin with; null: not yet."""
    first_response_ms: int | None
    """How long that took, in milliseconds."""
    ended_at: Moment | None
    took_ms: int | None
    """How long it took in all, in milliseconds; null before its end."""


class BatchSubtaskModel(AnswerModel):
    """One subtask: so many items, asked for in one call."""

    model_config = an_example(id="01a1eb4d-9e11-7b02-9a44-2d0f5d1c7a01", round=1, count=10, status="done", kept=10)

    id: str
    """What it is called."""
    index: int
    """Its place in its round."""
    round: int
    """The round that it belongs to."""
    count: int
    """How many items it asks for."""
    status: SubtaskStatus
    """Where it stands in its life."""
    attempt: int
    errors: int
    kept: int
    """How many of its items are kept."""
    error_class: str | None
    error: str | None
    created_at: Moment
    dispatched_at: Moment | None
    """When it was given to an agent; null: it waits."""
    ended_at: Moment | None


class BatchSubtasksModel(AnswerModel):
    """All subtasks of a batch, round by round."""

    items: list[BatchSubtaskModel]


class BatchItemModel(AnswerModel):
    """One item as it came. `twin` is what a duplicate is too much like, or what is wrong with an invalid one."""

    model_config = an_example(
        number=1,
        name="The Skerries of Snestad",
        fields={"description": "A fishing village where cats keep the accounts."},
        subtask_id="01a1eb4d-9e11-7b02-9a44-2d0f5d1c7a01",
    )

    number: int
    """Its place among the items that came."""
    name: str
    """Its name."""
    fields: dict[str, Json]
    """Everything that the agent said of it."""
    outcome: Literal["kept", "duplicate", "invalid"]
    """Whether it is kept."""
    twin: str | None
    """What it is too much like, or what is wrong with it."""
    subtask_id: str
    """The subtask that it came from."""
    at: Moment
    """When it came."""


class BatchSwitchesModel(AnswerModel):
    """What an operator has set, and how many batches are not over yet."""

    model_config = an_example(open=1)

    frozen: bool
    """No new batches are taken on."""
    degraded: bool
    """Each new batch is a single call."""
    open: int
    """How many batches are not over yet."""


EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$", "description": "What to come back with."},
        "event": {"enum": ["accepted", "item", "first_response", "progress", "completed", "failed", "cancelled"]},
        "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": {"type": "object"}},
    },
}
"""One event of a batch; an item has its name and its fields, the others say how far the batch is."""
EXAMPLE: Final = """id: 2
event: item
data: {"number":1,"name":"The Skerries of Snestad","description":"A fishing village where cats keep the accounts."}

"""
