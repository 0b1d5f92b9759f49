"""A scheduled agent as it lies in the store: a task of type `agent` with this payload, and how to read one."""

from __future__ import annotations

from typing import Literal

import msgspec

from rota.agents.names import AGENT
from rota.agents.schedules.origins import Origin
from rota.clock import Instant, to_datetime
from rota.codec import warmed
from rota.core.task import Task, TaskStatus, Want
from rota.errors import InvalidInput
from rota.triggers import AnyTrigger, Cron, Interval
from rota.triggers.zone import zone

__all__ = [
    "AGENT",
    "AgentPayload",
    "ContextMode",
    "held_of",
    "next_run_of",
    "payload_of",
    "spoken_time",
    "status_of",
    "value_of",
]

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


def held_of(task: Task | None, origin: Origin | None) -> str | None:
    """Why Rota has paused it, if that still counts: people also resume a schedule where nobody knows of agents."""
    if origin is None or task is None:
        return None if origin is None else origin.held
    goes_on = task.status in (TaskStatus.PENDING, TaskStatus.RUNNING) and task.want is not Want.PAUSE
    return None if goes_on else origin.held


def status_of(task: Task) -> str:
    """Its status as agents know it: one for pending and running. A run that is asked for leaves it paused."""
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
    """What agents know as `schedule_value`: the expression, the milliseconds, or the time on the wall of its zone."""
    if isinstance(trigger, Cron):
        return trigger.expression
    if isinstance(trigger, Interval):
        return str(trigger.every_ms)
    return to_datetime(trigger.at).astimezone(zone(timezone)).isoformat()


def spoken_time(at: Instant, timezone: str) -> str:
    """A time as one says it: "Monday 5 January 2026, 09:00 (Europe/Berlin)"."""
    local = to_datetime(at).astimezone(zone(timezone))
    return f"{local:%A} {local.day} {local:%B %Y, %H:%M} ({timezone})"
