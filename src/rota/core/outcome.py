"""What a store answers, one code per item."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from rota.clock import Instant
from rota.core.task import Task, TaskStatus

__all__ = ["Answer", "Reply", "ScheduleOutcome", "Scheduled", "Settled", "TouchOutcome", "Touched"]


class Answer(StrEnum):
    """The answer to an event on a task."""

    OK = "ok"
    ALREADY = "already"
    """The same settle was written before; its reply was lost on the way."""
    STALE = "stale"
    """The token is not the current one: nothing was written."""
    CANCEL = "cancel"
    """To a renewal: the lease is kept, but somebody wants the run to stop."""
    REFUSED = "refused"
    """The lifecycle has no such step from this state."""
    UNKNOWN = "unknown"
    """There is no such task."""
    SKIPPED = "skipped"
    """To a claim: the fire was skipped by policy and accounted for; nothing to run."""
    ENDED = "ended"
    """To a claim: the series had expired and is completed."""


class Reply(NamedTuple):
    """The answer and the task as it stands now (None when there is none)."""

    answer: Answer
    task: Task | None


class Settled(NamedTuple):
    """The answer to the end of a run, and the status that it led to (None when there is no task)."""

    answer: Answer
    status: TaskStatus | None


class TouchOutcome(StrEnum):
    """What an activity led to. The order is the order of the checks."""

    DISABLED = "disabled"
    COALESCED = "coalesced"
    BLOCKED = "blocked"
    FULL = "full"
    COOLDOWN = "cooldown"
    DEFERRED = "deferred"
    CREATED = "created"
    SPOOLED = "spooled"


class Touched(NamedTuple):
    """The store's answer to an activity: when the task is due, and how many activities it stands for."""

    outcome: TouchOutcome
    scheduled_at: Instant | None
    coalesced: int


class ScheduleOutcome(StrEnum):
    """What asking for a task led to."""

    CREATED = "created"
    UPDATED = "updated"
    EXISTS = "exists"
    DISABLED = "disabled"
    FULL = "full"
    QUOTA = "quota"


class Scheduled(NamedTuple):
    """The store's answer to `schedule`, with the task as it stands now."""

    outcome: ScheduleOutcome
    task: Task | None
