"""A scheduled agent, as seed 001 writes it and as it lies in the store: a task of type `agent` with this payload."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from rota.agents.ledger import Provenance
from rota.clock import Instant, isoformat, to_datetime
from rota.codec import warmed
from rota.core.task import Task, TaskStatus, Want
from rota.errors import InvalidInput
from rota.triggers import AnyTrigger, Cron, Interval, decode_trigger, explain
from rota.triggers.zone import zone

__all__ = [
    "AGENT",
    "AgentPayload",
    "AgentSchedule",
    "ContextMode",
    "Difference",
    "Wanted",
    "held_of",
    "next_run_of",
    "payload_of",
    "spoken_time",
    "status_of",
    "value_of",
]

AGENT: Final = "agent"
"""The task type of every scheduled agent."""

ContextMode = Literal["isolated", "group"]


class AgentPayload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run does, whenever it is due."""

    group_folder: str
    chat_jid: str
    prompt: str
    context_mode: ContextMode = "isolated"
    script: str | None = None
    timezone: str | None = None
    """The zone that its times are spoken of in; None: the group's."""


_decode_payload = warmed(msgspec.json.Decoder(AgentPayload), '{"group_folder":"g","chat_jid":"c","prompt":"p"}').decode


def payload_of(text: str | None) -> AgentPayload:
    """The payload of a task's record; what cannot be read is refused with the reason."""
    try:
        return _decode_payload(text or "null")
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidInput(f"The payload of this schedule is no scheduled agent: {error}. Make it again.") from None


@dataclass(frozen=True)
class Difference:
    """One thing about a schedule as it is now, and as it would be. None: there is none."""

    name: str
    old: str | None
    new: str | None

    @property
    def is_change(self) -> bool:
        return self.old != self.new

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "old": self.old, "new": self.new}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What waits for a person: who asks for it, and all that would be in force, beside what is."""

    kind: str
    by: str
    in_run: str | None
    """The scheduled run that asks; None: a conversation does."""
    digest: str
    """Of all of this: given with an approval, that is for what was shown and for nothing else."""
    shown: tuple[Difference, ...]

    @property
    def changes(self) -> list[str]:
        """The names of what would be different."""
        return [one.name for one in self.shown if one.is_change]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "by": self.by,
            "in_run": self.in_run,
            "digest": self.digest,
            "changes": self.changes,
            "shown": [one.to_dict() for one in self.shown],
        }


@dataclass(frozen=True, kw_only=True)
class AgentSchedule:
    """One scheduled agent as people and agents see it. Times are ISO 8601 in UTC, and in words in its own zone."""

    id: str
    group_folder: str
    chat_jid: str
    prompt: str
    schedule_type: str
    schedule_value: str
    context_mode: str
    script: str | None
    status: str
    """active, paused, completed, failed, cancelled; waiting_for_approval and rejected before it ever counted."""
    is_running: bool
    timezone: str
    words: str
    next_run: str | None
    next_run_words: str | None
    last_run: str | None
    last_result: str | None
    runs: int
    failures: int
    expires_at: str | None
    made_by: str
    made_in_run: str | None
    approval: str
    digest: str
    has_proposal: bool
    """Whether something of it waits for a person: all of it, or a change."""
    asks_for: str | None
    """What waits: create or update; and who asks for it."""
    asked_by: str | None
    wanted: Wanted | None
    """And all of it, beside what is in force now."""
    held: str | None

    def to_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**values, "wanted": None if self.wanted is None else self.wanted.to_dict()}

    @classmethod
    def of_task(
        cls, task: Task, origin: Provenance | None, timezone: str, wanted: Wanted | None = None
    ) -> AgentSchedule:
        """A schedule that is in the store."""
        payload = payload_of(task.payload)
        next_at = next_run_of(task)
        return _made(
            payload,
            decode_trigger(task.trigger) if task.trigger is not None else None,
            origin,
            payload.timezone or timezone,
            id=task.key,
            status=status_of(task),
            is_running=task.status is TaskStatus.RUNNING,
            next_at=next_at,
            runs=task.fires_run,
            expires_at=task.expires_at,
            seen_at=task.updated_at,
            digest=origin.digest if origin else "",
            wanted=wanted,
            held=held_of(task, origin),
        )

    @classmethod
    def of_proposal(
        cls,
        payload: AgentPayload,
        trigger: AnyTrigger,
        origin: Provenance,
        timezone: str,
        expires_at: Instant | None,
        digest: str,
        wanted: Wanted | None,
    ) -> AgentSchedule:
        """A schedule that only waits to be approved, or was rejected: it is in no store and fires never."""
        status = "waiting_for_approval" if origin.approval == "waiting" else origin.approval
        return _made(
            payload,
            trigger,
            origin,
            payload.timezone or timezone,
            id=origin.id,
            status=status,
            is_running=False,
            next_at=None,
            runs=0,
            expires_at=expires_at,
            seen_at=origin.created_at,
            digest=digest,
            wanted=wanted,
            held=origin.held,
        )


def _made(
    payload: AgentPayload,
    trigger: AnyTrigger | None,
    origin: Provenance | None,
    timezone: str,
    *,
    id: str,  # noqa: A002 - seed 001's word
    status: str,
    is_running: bool,
    next_at: Instant | None,
    runs: int,
    expires_at: Instant | None,
    seen_at: Instant,
    digest: str,
    wanted: Wanted | None,
    held: str | None,
) -> AgentSchedule:
    return AgentSchedule(
        id=id,
        group_folder=payload.group_folder,
        chat_jid=payload.chat_jid,
        prompt=payload.prompt,
        schedule_type=trigger.kind if trigger is not None else "once",
        schedule_value=value_of(trigger, timezone) if trigger is not None else "",
        context_mode=payload.context_mode,
        script=payload.script,
        status=status,
        is_running=is_running,
        timezone=timezone,
        words=explain(trigger, timezone, 0, seen_at).words if trigger is not None else "once",
        next_run=isoformat(next_at),
        next_run_words=None if next_at is None else spoken_time(next_at, timezone),
        last_run=isoformat(origin.last_run_at) if origin else None,
        last_result=origin.last_result if origin else None,
        runs=runs,
        failures=origin.failures if origin else 0,
        expires_at=isoformat(expires_at),
        made_by=origin.made_by if origin else "code",
        made_in_run=origin.made_in_run if origin else None,
        approval=origin.approval if origin else "none",
        digest=digest,
        has_proposal=wanted is not None,
        asks_for=wanted.kind if wanted is not None else None,
        asked_by=wanted.by if wanted is not None else None,
        wanted=wanted,
        held=held,
    )


def held_of(task: Task | None, origin: Provenance | None) -> str | None:
    """Why Rota has paused it, if that still counts: people also resume a schedule where nobody knows of agents."""
    if origin is None or task is None:
        return None if origin is None else origin.held
    goes_on = task.status in (TaskStatus.PENDING, TaskStatus.RUNNING) and task.want is not Want.PAUSE
    return None if goes_on else origin.held


def status_of(task: Task) -> str:
    """Seed 001's word for its status: one for pending and running. A run that is asked for leaves it paused."""
    if task.status is TaskStatus.PENDING and task.want is Want.PAUSE:
        return TaskStatus.PAUSED.value
    return "active" if task.status in (TaskStatus.PENDING, TaskStatus.RUNNING) else task.status.value


def next_run_of(task: Task) -> Instant | None:
    """When it runs next, if it does."""
    if not task.is_recurring:
        return task.scheduled_at if task.status is TaskStatus.PENDING else None
    is_over = task.next_fire is not None and task.expires_at is not None and task.next_fire >= task.expires_at
    return task.next_fire if task.status.is_live and not is_over else None


def value_of(trigger: AnyTrigger, timezone: str) -> str:
    """Seed 001's `schedule_value`: the expression, the milliseconds, or the time on the wall of its zone."""
    if isinstance(trigger, Cron):
        return trigger.expression
    if isinstance(trigger, Interval):
        return str(trigger.every_ms)
    return _local(trigger.at, timezone).isoformat()


def spoken_time(at: Instant, timezone: str) -> str:
    """A time as one says it: "Monday 5 January 2026, 09:00 (Europe/Berlin)"."""
    local = _local(at, timezone)
    return f"{local:%A} {local.day} {local:%B %Y, %H:%M} ({timezone})"


def _local(at: Instant, timezone: str) -> datetime:
    return to_datetime(at).astimezone(zone(timezone))
