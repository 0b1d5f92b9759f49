"""What a batch and its subtasks are, and what becomes of them: pure rules, and the only place that knows them.

| subtask    | step     | what has happened                                                | to         |
|------------|----------|------------------------------------------------------------------|------------|
| queued     | dispatch | its turn has come: an agent is asked, in the same transaction    | dispatched |
| dispatched | collect  | its first result is here                                         | done       |
| queued     | collect  | the same, of an attempt that nobody waited for any longer        | done       |
| dispatched | put back | it has failed and may be tried again, or must wait               | queued     |
| dispatched | give up  | it has failed for the last time                                  | failed     |
| queued     | give up  | its task has ended without it                                    | failed     |
| failed     | revive   | an operator has redriven its task, and the batch is still open   | queued     |
| queued     | drop     | the batch has ended                                              | cancelled  |
| dispatched | drop     | the batch has ended                                              | cancelled  |

A batch is `running` or `paused` until it ends: `completed`, with all that was asked for or with less and the reason
why, `failed` if nothing usable came, or `cancelled`. What has come stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

import msgspec

from rota.clock import Instant, Millis, isoformat
from rota.errors import IllegalTransition, RotaError

__all__ = [
    "FIRST_ITEMS",
    "NEXT",
    "Batch",
    "BatchStatus",
    "Decision",
    "End",
    "EndReason",
    "GoOn",
    "Outcome",
    "Subtask",
    "SubtaskStatus",
    "SubtaskStep",
    "TopUp",
    "UnknownBatch",
    "end_of",
    "ended",
    "held",
    "moved",
    "priority_of",
    "status_after",
    "unknown_batch",
    "what_next",
]

FIRST_ITEMS: Final = 5
"""So many items are something that a person can begin with: the first response."""


class UnknownBatch(RotaError, LookupError):
    """No batch has this id, or it was removed when its time was over."""

    code = "unknown_batch"


def unknown_batch(batch_id: str) -> UnknownBatch:
    return UnknownBatch(f"No batch has the id {batch_id!r}. `rota batch ls` lists them.")


class BatchStatus(StrEnum):
    """Where a batch stands."""

    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        return self in (BatchStatus.RUNNING, BatchStatus.PAUSED)


class EndReason(StrEnum):
    """Why a batch has ended with less than was asked for."""

    DEADLINE = "deadline"
    BUDGET = "budget"
    EXHAUSTED = "exhausted"
    """Every subtask has ended, the rounds that top up as well."""


class SubtaskStatus(StrEnum):
    """Where a subtask stands."""

    QUEUED = "queued"
    DISPATCHED = "dispatched"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        return self in (SubtaskStatus.QUEUED, SubtaskStatus.DISPATCHED)


class SubtaskStep(StrEnum):
    """What can happen to a subtask."""

    DISPATCH = "dispatch"
    COLLECT = "collect"
    PUT_BACK = "put back"
    GIVE_UP = "give up"
    REVIVE = "revive"
    DROP = "drop"


NEXT: Final[Mapping[tuple[SubtaskStatus, SubtaskStep], SubtaskStatus]] = {
    (SubtaskStatus.QUEUED, SubtaskStep.DISPATCH): SubtaskStatus.DISPATCHED,
    (SubtaskStatus.DISPATCHED, SubtaskStep.COLLECT): SubtaskStatus.DONE,
    (SubtaskStatus.QUEUED, SubtaskStep.COLLECT): SubtaskStatus.DONE,
    (SubtaskStatus.DISPATCHED, SubtaskStep.PUT_BACK): SubtaskStatus.QUEUED,
    (SubtaskStatus.DISPATCHED, SubtaskStep.GIVE_UP): SubtaskStatus.FAILED,
    (SubtaskStatus.QUEUED, SubtaskStep.GIVE_UP): SubtaskStatus.FAILED,
    (SubtaskStatus.FAILED, SubtaskStep.REVIVE): SubtaskStatus.QUEUED,
    (SubtaskStatus.QUEUED, SubtaskStep.DROP): SubtaskStatus.CANCELLED,
    (SubtaskStatus.DISPATCHED, SubtaskStep.DROP): SubtaskStatus.CANCELLED,
}


def status_after(status: SubtaskStatus, step: SubtaskStep, subtask_id: str) -> SubtaskStatus:
    """Where a step leads; `IllegalTransition` if it leads nowhere from here."""
    after = NEXT.get((status, step))
    if after is None:
        raise IllegalTransition(f"The subtask {subtask_id} is {status}: '{step}' leads nowhere from there.")
    return after


def moved(subtask: Subtask, step: SubtaskStep, **values: Any) -> Subtask:
    """A subtask one step further, with whatever else that changes."""
    return msgspec.structs.replace(subtask, status=status_after(subtask.status, step, subtask.id), **values)


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One batch, as its row has it."""

    id: str
    owner: str
    user_id: str | None
    session_id: str
    type: str
    agent: str
    count: int
    style: str
    """JSON: a text, or an object."""
    priority: int
    seed: int
    distinct: Literal["batch", "session"]
    similarity: int
    """Thousandths: items that are more alike than this are one."""
    size: int
    """Items that one subtask asks for, as a rule."""
    deadline_at: Instant
    budget_tokens: int | None
    idempotency_key: str | None
    digest: str | None
    correlation_id: str
    status: BatchStatus
    reason: str | None
    expected: int
    done: int
    failed: int
    items: int
    duplicates: int
    invalid: int
    late: int
    rounds: int
    tokens_in: int
    tokens_out: int
    events: int
    numbers: int
    first_at: Instant | None
    created_at: Instant
    ended_at: Instant | None

    @property
    def shortfall(self) -> int:
        """How many items are missing."""
        return self.count - self.items

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    @property
    def first_response_ms(self) -> Millis | None:
        """How long the first usable items took; None as long as there are none."""
        return None if self.first_at is None else self.first_at - self.created_at

    @property
    def took_ms(self) -> Millis | None:
        """From the request to the end; None as long as it is open."""
        return None if self.ended_at is None else self.ended_at - self.created_at

    def to_dict(self) -> dict[str, Any]:
        """For people and programs; without what only the engine needs."""
        return {
            "id": self.id,
            "status": self.status,
            "reason": self.reason,
            "type": self.type,
            "agent": self.agent,
            "count": self.count,
            "style": msgspec.json.decode(self.style),
            "session_id": self.session_id,
            "user_id": self.user_id,
            "owner": self.owner,
            "priority": self.priority,
            "seed": self.seed,
            "distinct": self.distinct,
            "items": self.items,
            "shortfall": self.shortfall,
            "duplicates": self.duplicates,
            "invalid": self.invalid,
            "late": self.late,
            "subtasks": {"expected": self.expected, "done": self.done, "failed": self.failed},
            "rounds": self.rounds,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "budget_tokens": self.budget_tokens,
            "correlation_id": self.correlation_id,
            "idempotency_key": self.idempotency_key,
            "created_at": isoformat(self.created_at),
            "deadline_at": isoformat(self.deadline_at),
            "first_at": isoformat(self.first_at),
            "first_response_ms": self.first_response_ms,
            "ended_at": isoformat(self.ended_at),
            "took_ms": self.took_ms,
        }


class Subtask(msgspec.Struct, frozen=True, kw_only=True):
    """One subtask, as its row has it."""

    id: str
    batch_id: str
    index: int
    round: int
    count: int
    cost: int
    status: SubtaskStatus
    attempt: int
    errors: int
    queue_told: int
    event_id: str | None
    dispatched_at: Instant | None
    sent_at: Instant | None
    ended_at: Instant | None
    wait_ms: Millis | None
    error_class: str | None
    error: str | None
    kept: int
    created_at: Instant

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "index": self.index,
            "round": self.round,
            "count": self.count,
            "status": self.status,
            "attempt": self.attempt,
            "errors": self.errors,
            "kept": self.kept,
            "error_class": self.error_class,
            "error": self.error,
            "created_at": isoformat(self.created_at),
            "dispatched_at": isoformat(self.dispatched_at),
            "ended_at": isoformat(self.ended_at),
        }


Outcome = Literal["kept", "duplicate", "invalid"]
"""What became of an item."""


class GoOn(NamedTuple):
    """There are subtasks to wait for."""


class TopUp(NamedTuple):
    """Another round, for so many items."""

    missing: int


class End(NamedTuple):
    """The batch is over."""

    status: BatchStatus
    reason: EndReason | None


Decision = GoOn | TopUp | End


def ended(batch: Batch, end: End, now: Instant) -> Batch:
    """A batch that is over."""
    reason = None if end.reason is None else end.reason.value
    return msgspec.structs.replace(batch, status=end.status, reason=reason, ended_at=now)


def held(batch: Batch, *, is_paused: bool) -> Batch:
    """A batch of which nothing more is begun, or one that goes on. `IllegalTransition` if it is over."""
    if not batch.status.is_open:
        raise IllegalTransition(f"The batch {batch.id} has ended: {batch.status}. Nothing of it can be held or go on.")
    return msgspec.structs.replace(batch, status=BatchStatus.PAUSED if is_paused else BatchStatus.RUNNING)


def what_next(batch: Batch, *, lost: int, top_up_rounds: int) -> Decision:
    """What becomes of a batch as it stands. `lost` is how many items failed subtasks were to bring: asking for those
    again would most likely fail again, so only what was answered and could not be used is topped up."""
    if batch.items >= batch.count:
        return End(BatchStatus.COMPLETED, None)
    if batch.budget_tokens is not None and batch.tokens >= batch.budget_tokens:
        return end_of(batch, EndReason.BUDGET)
    if batch.done + batch.failed < batch.expected:
        return GoOn()
    missing = batch.shortfall - lost
    if missing > 0 and batch.rounds < top_up_rounds:
        return TopUp(missing)
    return end_of(batch, EndReason.EXHAUSTED)


def end_of(batch: Batch, reason: EndReason) -> End:
    """The end of a batch that has not all it was asked for: what came is enough to have completed."""
    return End(BatchStatus.COMPLETED if batch.items else BatchStatus.FAILED, reason)


def priority_of(batch_priority: int, *, is_first: bool) -> int:
    """The priority of a subtask in the queue. Those after the first are one level lower, so that every batch of a
    priority has something before any has its second helping; where there is no lower level, the first is one higher."""
    first = max(batch_priority, 1)
    return first if is_first else first - 1
