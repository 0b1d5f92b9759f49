"""The values that the engine moves about: a task, its past, one run of it, and what a caller asks for.

All of them are frozen. Only `core/lifecycle.py` makes a new `Task` out of an old one. They hold nothing but plain
values, so no cycle can go through them, and the garbage collector need not look (`gc=False`).
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import msgspec

from rota.clock import Instant, Millis
from rota.codec import warmed
from rota.triggers import AnyTrigger, Cron, Interval, Policy, decode_trigger

__all__ = [
    "LIVE",
    "NO_PAST",
    "Activity",
    "Change",
    "Entry",
    "Identified",
    "Identity",
    "Lease",
    "NewTask",
    "Past",
    "Renewal",
    "RunRecord",
    "RunStatus",
    "Settlement",
    "Task",
    "TaskStatus",
    "Transition",
    "Want",
    "policy_of",
]


class TaskStatus(StrEnum):
    """Where a task stands. A task that was never made, or was purged, has no status: it is absent."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    is_live: bool
    """Whether the identity is taken: work is waiting, held back or under way."""

    def __init__(self, name: str) -> None:
        self.is_live = name in ("pending", "running", "paused")


LIVE = frozenset(status for status in TaskStatus if status.is_live)


class Want(StrEnum):
    """What somebody asked of a task while it was running; it takes effect when the run ends."""

    NONE = "none"
    PAUSE = "pause"
    CANCEL = "cancel"


class Transition(StrEnum):
    """Everything that can happen to a task. The same word names the store's verb."""

    SCHEDULE = "schedule"
    UPDATE = "update"
    TOUCH = "touch"
    CLAIM = "claim"
    RENEW = "renew"
    COMPLETE = "complete"
    DISCARD = "discard"
    RETRY = "retry"
    FAIL = "fail"
    SNOOZE = "snooze"
    RELEASE = "release"
    REAP = "reap"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RUN_NOW = "run_now"
    REDRIVE = "redrive"
    END = "end"
    PURGE = "purge"
    ERASE = "erase"


class RunStatus(StrEnum):
    """How one run, or one nominal fire that never ran, ended."""

    SUCCESS = "success"
    ERROR = "error"
    LOST = "lost"
    SKIPPED = "skipped"
    COALESCED = "coalesced"


class Identity(NamedTuple):
    """What makes two requests the same task."""

    task_type: str
    key: str

    def __str__(self) -> str:
        return f"{self.task_type}/{self.key}"


class Identified(msgspec.Struct, frozen=True, gc=False):
    """What is about one identity."""

    task_type: str
    key: str

    @property
    def identity(self) -> Identity:
        return Identity(self.task_type, self.key)


class Task(Identified, frozen=True, gc=False):
    """One identity's live or finished work.

    `scheduled_at` is when it is due. For a recurring task `next_fire` is the nominal fire that it waits for, and every
    fire before it is accounted for; `fire_at` is the one being run or retried (of a manual run, while it runs, its own
    due time), and `opened_at` when that one was first claimed. The due time differs from the fire by jitter, back-off
    or a manual run.
    """

    status: TaskStatus
    scheduled_at: Instant
    created_at: Instant
    updated_at: Instant

    user_id: str | None = None
    device_id: str | None = None
    agent_id: str | None = None
    owner: str | None = None
    payload: str | None = None
    priority: int = 5
    serial: str | None = None
    permits: int = 1
    cost: int = 1
    parked: bool = False

    trigger: str | None = None
    trigger_mode: str = "user_activity"
    policy: str | None = None
    version: int = 1
    fire_at: Instant | None = None
    opened_at: Instant | None = None
    next_fire: Instant | None = None
    fires_run: int = 0
    times_run: int = 0
    """Of a schedule: how often it was run to an end, also by hand; `fires_run` counts against `max_runs`."""
    max_runs: int | None = None
    expires_at: Instant | None = None
    manual: bool = False

    first_activity_at: Instant | None = None
    last_activity_at: Instant | None = None
    coalesced: int = 0
    dirty: bool = False
    want: Want = Want.NONE

    token: int = 0
    lease_until: Instant | None = None
    instance: str | None = None
    claim_id: str | None = None
    claimed_at: Instant | None = None
    claimed_version: int = 0
    renewed: bool = False
    """Whether whoever claimed it has renewed its lease since: the run has begun."""
    extended: bool = False
    """Whether its lease was prolonged because nobody had swept, and nobody has renewed it since."""
    last_token: int = 0
    last_outcome: Transition | None = None

    attempt: int = 0
    errors: int = 0
    crashes: int = 0
    snoozes: int = 0

    finished_at: Instant | None = None
    purge_at: Instant | None = None
    reason: str | None = None
    error: str | None = None
    result: str | None = None
    progress: str | None = None
    failure: str | None = None
    """The group that its last run's failure belongs to (`core/failure.py`)."""
    trace: str | None = None
    """The context in which it was made (a `traceparent`), if its maker is traced: its runs are linked to it."""

    @property
    def shown_progress(self) -> str | None:
        """How far the run is that goes on now. What one that is over reported is kept with that run, and no news."""
        return self.progress if self.status is TaskStatus.RUNNING else None

    @property
    def runs(self) -> int:
        """How often a schedule has run. What a version before this one has counted is not lost."""
        return max(self.times_run, self.fires_run)

    @property
    def series(self) -> AnyTrigger | None:
        """The trigger that makes this task due again and again, or None."""
        if self.trigger is None:
            return None
        trigger = decode_trigger(self.trigger)
        return trigger if isinstance(trigger, Cron | Interval) else None

    @property
    def is_recurring(self) -> bool:
        return self.series is not None

    @property
    def series_policy(self) -> Policy:
        return policy_of(self.policy)


_decode_policy = warmed(msgspec.json.Decoder(Policy), "{}").decode


@lru_cache(maxsize=1024)
def policy_of(text: str | None) -> Policy:
    """The series policy as it stands in a record; nothing written means the defaults."""
    return Policy() if text is None else _decode_policy(text)


class Past(msgspec.Struct, frozen=True, gc=False):
    """What is remembered of an identity after its task was purged: the cooldown, the breaker, the last claim."""

    last_exec_at: Instant | None = None
    fail_count: int = 0
    fail_until: Instant | None = None
    last_claimed_at: Instant | None = None
    forget_at: Instant | None = None


NO_PAST = Past()


class Entry(NamedTuple):
    """All that a store knows of one identity."""

    task: Task | None
    past: Past


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt, or one range of nominal fires that were not run one by one. `run_id` is given by the store."""

    task_type: str
    key: str
    status: RunStatus
    started_at: Instant
    run_id: str = ""
    user_id: str | None = None
    trigger_mode: str = "user_activity"
    fire_at: Instant | None = None
    last_fire_at: Instant | None = None
    fires: int = 1
    duration_ms: Millis = 0
    attempt: int = 0
    token: int = 0
    instance: str | None = None
    reason: str | None = None
    result: str | None = None
    error: str | None = None
    due_at: Instant | None = None
    """When it was due, where that is not its fire time."""
    failure: str | None = None
    """The group that its failure belongs to (`core/failure.py`)."""

    @property
    def was_due_at(self) -> Instant | None:
        """When this attempt was due; None for a fire that was not run."""
        return self.fire_at if self.due_at is None else self.due_at

    @property
    def ended_at(self) -> Instant:
        """When it was written down."""
        return self.started_at + self.duration_ms


class NewTask(Identified, frozen=True, kw_only=True, gc=False):
    """A task to be made. Without a trigger it is due at `scheduled_at`, or `delay_ms` from now by the store's clock.

    `replace` says what happens when the identity is already live: keep it (False) or update it (True, an upsert).
    `owner_limit` bounds the live schedules of `owner` in this type.
    """

    trigger: str | None = None
    policy: str | None = None
    scheduled_at: Instant | None = None
    delay_ms: Millis = 0
    payload: str | None = None
    priority: int | None = None
    serial: str | None = None
    permits: int = 1
    cost: int = 1
    owner: str | None = None
    owner_limit: int | None = None
    user_id: str | None = None
    device_id: str | None = None
    agent_id: str | None = None
    max_runs: int | None = None
    expires_at: Instant | None = None
    replace: bool = False
    trace: str | None = None


class Change(Identified, frozen=True, kw_only=True, gc=False):
    """New values for a live task; UNSET leaves a field as it is."""

    trigger: str | msgspec.UnsetType = msgspec.UNSET
    policy: str | msgspec.UnsetType | None = msgspec.UNSET
    scheduled_at: Instant | msgspec.UnsetType = msgspec.UNSET
    payload: str | msgspec.UnsetType | None = msgspec.UNSET
    priority: int | msgspec.UnsetType = msgspec.UNSET
    max_runs: int | msgspec.UnsetType | None = msgspec.UNSET
    expires_at: Instant | msgspec.UnsetType | None = msgspec.UNSET


class Activity(Identified, frozen=True, kw_only=True, gc=False):
    """A user did something. `at` is when, if that was not now (a spooled touch)."""

    user_id: str
    device_id: str | None = None
    agent_id: str | None = None
    at: Instant | None = None
    trace: str | None = None


class Lease(NamedTuple):
    """The right to run one task until an instant, under a token that is never used again."""

    token: int
    until: Instant
    instance: str
    claim_id: str


class Renewal(NamedTuple):
    """A running task's request to keep its lease, with the progress it has made since the last one."""

    task_type: str
    key: str
    token: int
    progress: str | None = None

    @property
    def identity(self) -> Identity:
        return Identity(self.task_type, self.key)


class Settlement(Identified, frozen=True, kw_only=True, gc=False):
    """How a run ended: one of complete, discard, retry, fail, snooze, release.

    `after_ms` is the delay that the handler asked for (Retry, Snooze); `chance` in [0, 1) is the luck of the draw for
    the back-off's jitter, so that the store itself draws nothing.
    """

    token: int
    transition: Transition
    duration_ms: Millis = 0
    reason: str | None = None
    error: str | None = None
    result: str | None = None
    after_ms: Millis | None = None
    chance: float = 0.5
    failure: str | None = None
    details: str | None = None
    """What the run has left (`core/run_details.py`), kept in the same step."""
