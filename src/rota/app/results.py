"""What the Python face answers with: frozen values with aware datetimes, and `to_dict` for JSON.

Inside Rota an instant is a number; here, at the edge, it becomes a datetime in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec import structs

from rota.clock import Instant, Millis, from_datetime, isoformat, to_datetime
from rota.codec import to_json
from rota.core.outcome import Answer, Reply, Scheduled, ScheduleOutcome, Touched, TouchOutcome
from rota.core.run_details import RunDetails
from rota.core.task import Identity, RunRecord, RunStatus, Task, TaskStatus, Transition, Want
from rota.core.waiting import Reason, WaitExplanation
from rota.errors import IllegalTransition, InvalidInput, LimitExceeded, UnknownTask
from rota.keys import shown_key
from rota.masking import masker
from rota.triggers import AnyTrigger, Cron, Interval, Misfire, Overlap, decode_trigger, explain

__all__ = [
    "Receipt",
    "RunInfo",
    "ScheduleInfo",
    "TaskDetails",
    "Touch",
    "Waiting",
    "accepted",
    "answered",
    "decoded",
    "details_to_dict",
    "encode_json",
]

Json = object
"""Whatever JSON can say."""


class _Answer:
    """A dataclass that can be written as JSON."""

    def to_dict(self) -> dict[str, Json]:
        """Plain values, as people may read them: times as ISO 8601 in UTC, choices as their texts, secrets hidden."""
        return {field.name: _shown(field.name, getattr(self, field.name)) for field in fields(self)}  # pyright: ignore[reportArgumentType] -- every subclass is a dataclass


_WRITTEN_BY_OTHERS = frozenset({"payload", "progress", "result", "error"})


def _shown(name: str, value: object) -> Json:
    return masker().value(value) if value is not None and name in _WRITTEN_BY_OTHERS else _plain(value)


def _plain(value: object) -> Json:
    if isinstance(value, datetime):
        return isoformat(from_datetime(value))
    return value.value if isinstance(value, StrEnum) else value


def _moment(at: Instant | None) -> datetime | None:
    return None if at is None else to_datetime(at)


def encode_json(value: object, what: str) -> str | None:
    """A payload as JSON; None stays None. What JSON cannot say is refused."""
    if value is None:
        return None
    try:
        return to_json(value).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidInput(
            f"The {what} cannot be written as JSON: {error}. Use dicts, lists, texts and numbers."
        ) from None


def decoded(text: str | None) -> Json:
    """What a text says as JSON; what is no JSON is said as it is."""
    if text is None:
        return None
    try:
        value: Json = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value


@dataclass(frozen=True)
class Touch(_Answer):
    """What an activity led to: when the task is due, and how many activities it stands for beside the first."""

    outcome: TouchOutcome
    scheduled_at: datetime | None
    coalesced: int

    @classmethod
    def of(cls, touched: Touched) -> Touch:
        return cls(touched.outcome, _moment(touched.scheduled_at), touched.coalesced)


@dataclass(frozen=True)
class Receipt(_Answer):
    """What asking for a task led to: created, updated, or a live one with this key exists already."""

    outcome: ScheduleOutcome
    task_type: str
    key: str
    scheduled_at: datetime

    @classmethod
    def of(cls, scheduled: Scheduled, identity: Identity) -> Receipt:
        task = accepted(scheduled, identity)
        return cls(scheduled.outcome, task.task_type, task.key, to_datetime(task.scheduled_at))


@dataclass(frozen=True)
class TaskDetails(_Answer):
    """One task as it stands."""

    task_type: str
    key: str
    status: TaskStatus
    scheduled_at: datetime
    created_at: datetime
    updated_at: datetime
    user_id: str | None
    device_id: str | None
    agent_id: str | None
    owner: str | None
    payload: Json
    priority: int
    serial: str | None
    coalesced: int
    last_activity_at: datetime | None
    fire_at: datetime | None
    next_fire: datetime | None
    want: Want
    attempt: int
    errors: int
    crashes: int
    instance: str | None
    lease_until: datetime | None
    finished_at: datetime | None
    reason: str | None
    error: str | None
    result: str | None
    progress: Json
    failure: str | None
    """The group that its last failure belongs to."""

    @classmethod
    def of(cls, task: Task) -> TaskDetails:
        return cls(
            task_type=task.task_type,
            key=task.key,
            status=task.status,
            scheduled_at=to_datetime(task.scheduled_at),
            created_at=to_datetime(task.created_at),
            updated_at=to_datetime(task.updated_at),
            user_id=task.user_id,
            device_id=task.device_id,
            agent_id=task.agent_id,
            owner=task.owner,
            payload=decoded(task.payload),
            priority=task.priority,
            serial=task.serial,
            coalesced=task.coalesced,
            last_activity_at=_moment(task.last_activity_at),
            fire_at=_moment(task.fire_at),
            next_fire=_moment(task.next_fire),
            want=task.want,
            attempt=task.attempt,
            errors=task.errors,
            crashes=task.crashes,
            instance=task.instance,
            lease_until=_moment(task.lease_until),
            finished_at=_moment(task.finished_at),
            reason=task.reason,
            error=task.error,
            result=task.result,
            progress=decoded(task.shown_progress),
            failure=task.failure,
        )


@dataclass(frozen=True)
class Waiting:
    """Why a task waits, or what became of it: the reasons, its place in line, and how long it may take."""

    task: TaskDetails | None
    state: str
    reasons: tuple[Reason, ...]
    position: int | None
    position_is_more: bool
    estimate_ms: Millis | None
    due_at: datetime | None
    summary: str

    @classmethod
    def of(cls, task: Task | None, explained: WaitExplanation) -> Waiting:
        return cls(
            task=None if task is None else TaskDetails.of(task),
            state=explained.state,
            reasons=explained.reasons,
            position=explained.position,
            position_is_more=explained.position_is_more,
            estimate_ms=explained.estimate_ms,
            due_at=_moment(explained.due_at),
            summary=explained.summary,
        )

    def to_dict(self) -> dict[str, Json]:
        """Plain values: times as ISO 8601 in UTC."""
        return {
            "task": None if self.task is None else self.task.to_dict(),
            "state": self.state,
            "reasons": [reason._asdict() for reason in self.reasons],
            "position": self.position,
            "position_is_more": self.position_is_more,
            "estimate_ms": self.estimate_ms,
            "due_at": _plain(self.due_at),
            "summary": self.summary,
        }


@dataclass(frozen=True)
class RunInfo(_Answer):
    """One run, or one range of fires that were not run one by one. `user_key` is "global" for periodic types."""

    run_id: str
    task_type: str
    key: str
    user_key: str
    status: RunStatus
    trigger_mode: str
    started_at: datetime
    duration_ms: Millis
    fire_at: datetime | None
    last_fire_at: datetime | None
    fires: int
    attempt: int
    token: int
    instance: str | None
    user_id: str | None
    reason: str | None
    result: str | None
    error: str | None
    due_at: datetime | None
    """When this attempt was due: from then on it waited."""
    failure: str | None
    """The group that its failure belongs to."""

    @classmethod
    def of(cls, run: RunRecord) -> RunInfo:
        return cls(
            run_id=run.run_id,
            task_type=run.task_type,
            key=run.key,
            user_key=shown_key(run.key),
            status=run.status,
            trigger_mode=run.trigger_mode,
            started_at=to_datetime(run.started_at),
            duration_ms=run.duration_ms,
            fire_at=_moment(run.fire_at),
            last_fire_at=_moment(run.last_fire_at),
            fires=run.fires,
            attempt=run.attempt,
            token=run.token,
            instance=run.instance,
            user_id=run.user_id,
            reason=run.reason,
            result=run.result,
            error=run.error,
            due_at=_moment(run.was_due_at),
            failure=run.failure,
        )


def details_to_dict(details: RunDetails) -> dict[str, Json]:
    """What a run has left, as plain values."""
    return {
        **structs.asdict(details),
        "lines": [structs.asdict(line) for line in details.lines],
        "progress": [{"at_ms": each.at_ms, "value": decoded(each.value)} for each in details.progress],
        "steps": [structs.asdict(step) for step in details.steps],
        "payload": decoded(details.payload),
    }


@dataclass(frozen=True)
class ScheduleInfo(_Answer):
    """One schedule: a task that a person, a program or an agent made at run time, with its own trigger."""

    id: str
    task_type: str
    status: TaskStatus
    kind: str
    value: str
    timezone: str
    words: str
    next_fire: datetime | None
    payload: Json
    owner: str | None
    priority: int
    serial: str | None
    misfire: Misfire
    overlap: Overlap
    jitter_ms: Millis
    grace_ms: Millis | None
    runs: int
    max_runs: int | None
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime
    version: int
    reason: str | None
    result: str | None
    error: str | None

    @classmethod
    def of(cls, task: Task, timezone: str) -> ScheduleInfo:
        """The schedule that a task is. `timezone` is the one to speak of where the trigger has none."""
        assert task.trigger is not None, f"{task.identity} has no trigger"
        trigger, policy = decode_trigger(task.trigger), task.series_policy
        spoken = trigger.timezone if isinstance(trigger, Cron) else timezone
        return cls(
            id=task.key,
            task_type=task.task_type,
            status=task.status,
            kind=trigger.kind,
            value=_value_of(trigger),
            timezone=spoken,
            words=explain(trigger, spoken, 0, task.updated_at).words,
            next_fire=_next_fire(task, trigger),
            payload=decoded(task.payload),
            owner=task.owner,
            priority=task.priority,
            serial=task.serial,
            misfire=policy.misfire,
            overlap=policy.overlap,
            jitter_ms=policy.jitter_ms,
            grace_ms=policy.grace_ms,
            runs=task.runs,
            max_runs=task.max_runs,
            expires_at=_moment(task.expires_at),
            created_at=to_datetime(task.created_at),
            updated_at=to_datetime(task.updated_at),
            version=task.version,
            reason=task.reason,
            result=task.result,
            error=task.error,
        )


def _value_of(trigger: AnyTrigger) -> str:
    match trigger:
        case Cron():
            return trigger.expression
        case Interval():
            return str(trigger.every_ms)
        case _:
            return isoformat(trigger.at) or ""


def _next_fire(task: Task, trigger: AnyTrigger) -> datetime | None:
    """The fire that is waited for; a schedule that is over or held waits for none."""
    if not task.status.is_live or task.status is TaskStatus.PAUSED:
        return None
    if task.is_recurring:
        return _moment(task.next_fire)
    return to_datetime(task.scheduled_at) if task.status is not TaskStatus.RUNNING else None


# --- from the store's codes to values and errors ---------------------------------------------------------------------

_REFUSED: Mapping[ScheduleOutcome, tuple[type[InvalidInput], str]] = {
    ScheduleOutcome.DISABLED: (
        InvalidInput,
        "the type is disabled. Enable it, in the configuration or by `app.enable`.",
    ),
    ScheduleOutcome.FULL: (
        LimitExceeded,
        "the type has as many pending tasks as its max_pending allows. Try again later.",
    ),
    ScheduleOutcome.QUOTA: (
        LimitExceeded,
        "the owner has as many live schedules as its limit allows. Cancel one first.",
    ),
}


def accepted(scheduled: Scheduled, identity: Identity) -> Task:
    """The task that was made, updated or found. What was not accepted is an error: nobody overlooks one."""
    refusal = _REFUSED.get(scheduled.outcome)
    if refusal is not None:
        kind, why = refusal
        raise kind(f"{_named(identity)} was not scheduled: {why}")
    assert scheduled.task is not None, f"{identity} was accepted but is not there"
    return scheduled.task


def answered(transition: Transition, identity: Identity, reply: Reply) -> Task | None:
    """The task after an operator's transition, or an error that says why nothing happened."""
    if reply.answer is Answer.UNKNOWN:
        raise UnknownTask(f"There is no {_named(identity)}, so it cannot {transition}. List what there is with find().")
    if reply.answer is Answer.REFUSED:
        status = "gone" if reply.task is None else reply.task.status
        raise IllegalTransition(
            f"{_named(identity)} is {status}; '{transition}' leads nowhere from there. Nothing changed."
        )
    return reply.task


def _named(identity: Identity) -> str:
    return f"task {identity.task_type}/{shown_key(identity.key)}"
