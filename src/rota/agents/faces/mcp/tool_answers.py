"""What the tools answer: few fields, with names that a model can use again, and times in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from rota.agents.runs.run_store import cut
from rota.agents.schedules.agent_task import spoken_time
from rota.agents.schedules.proposal_view import ProposalView
from rota.agents.schedules.schedule import AgentSchedule
from rota.clock import from_datetime

__all__ = [
    "RunAnswer",
    "RunsAnswer",
    "TaskAnswer",
    "TasksAnswer",
    "WaitingAnswer",
    "in_words",
    "runs_answer",
    "task_answer",
    "tasks_answer",
]

PROMPT_SHOWN = 2_000
RESULT_SHOWN = 4_000


class DifferenceAnswer(BaseModel):
    """One thing about a task as it is now, and as it would be."""

    name: str
    now: str | None
    then: str | None


class WaitingAnswer(BaseModel):
    """What waits for the owner's approval."""

    asked_by: str
    asks_for: str
    changes: list[DifferenceAnswer] = Field(description="Only what would be different.")


class TaskAnswer(BaseModel):
    """One scheduled task."""

    message: str = Field(description="What happened, in words. Tell this to the owner.")
    task_id: str = Field(description="The id, for every other tool.")
    group: str
    prompt: str
    schedule_type: str
    schedule_value: str
    schedule_in_words: str
    timezone: str = Field(description="The zone that times are spoken of in.")
    context_mode: str
    has_script: bool
    script: str | None = Field(description="The script that decides before each run whether to wake the agent.")
    status: str = Field(
        description="active, paused, completed, failed, cancelled, waiting_for_approval (does not run yet) or rejected."
    )
    next_run: str | None = Field(description="ISO 8601, UTC.")
    next_run_in_words: str | None = Field(description="The same in the task's own zone.")
    last_run_in_words: str | None
    last_result: str | None
    expires_at: str | None
    has_waiting_change: bool = Field(description="A change of it waits for the owner's approval.")
    waiting_change: WaitingAnswer | None = Field(description="Who asked for it, and what it would change.")
    paused_because: str | None


class TasksAnswer(BaseModel):
    """The scheduled tasks of a group."""

    message: str
    tasks: list[TaskAnswer]


class RunAnswer(BaseModel):
    """One run, or one fire that was not run."""

    status: str = Field(description="success, error, lost, skipped or coalesced.")
    reason: str | None
    due_in_words: str | None = Field(description="When it was due.")
    started_in_words: str | None
    duration_ms: int | None
    result: str | None
    error: str | None


class RunsAnswer(BaseModel):
    """What became of a scheduled task, newest first."""

    message: str
    runs: list[RunAnswer]
    cursor: str | None = Field(description="Give it back for the runs before these; null at the end.")


def task_answer(schedule: AgentSchedule, message: str) -> TaskAnswer:
    """A schedule as a tool shows it."""
    return TaskAnswer(
        message=message,
        task_id=schedule.id,
        group=schedule.group_folder,
        prompt=cut(schedule.prompt, PROMPT_SHOWN),
        schedule_type=schedule.schedule_type,
        schedule_value=schedule.schedule_value,
        schedule_in_words=schedule.words,
        timezone=schedule.timezone,
        context_mode=schedule.context_mode,
        has_script=schedule.script is not None,
        script=None if schedule.script is None else cut(schedule.script, PROMPT_SHOWN),
        status=schedule.status,
        next_run=schedule.next_run,
        next_run_in_words=schedule.next_run_words,
        last_run_in_words=_spoken(schedule.last_run, schedule.timezone),
        last_result=schedule.last_result,
        expires_at=schedule.expires_at,
        has_waiting_change=schedule.has_proposal and schedule.status != "waiting_for_approval",
        waiting_change=None if schedule.wanted is None else _waiting(schedule.wanted),
        paused_because=schedule.held,
    )


def _waiting(wanted: ProposalView) -> WaitingAnswer:
    differ = [one for one in wanted.shown if one.is_change]
    changes = [DifferenceAnswer(name=one.name, now=_brief(one.old), then=_brief(one.new)) for one in differ]
    return WaitingAnswer(asked_by=wanted.by, asks_for=wanted.kind, changes=changes)


def _brief(text: str | None) -> str | None:
    return None if text is None else cut(text, PROMPT_SHOWN)


def tasks_answer(schedules: Sequence[AgentSchedule]) -> TasksAnswer:
    """A list, each with its next time in words."""
    count = len(schedules)
    found = f"{count} scheduled {'task' if count == 1 else 'tasks'}." if count else "Nothing is scheduled."
    return TasksAnswer(message=found, tasks=[task_answer(one, in_words(one)) for one in schedules])


def in_words(schedule: AgentSchedule) -> str:
    """How a schedule stands, in one sentence."""
    if schedule.status == "waiting_for_approval":
        return f"It waits for the owner's approval and does not run before: {schedule.words}."
    if schedule.next_run_words is not None and schedule.status == "active":
        return f"It runs {schedule.words}; next on {schedule.next_run_words}."
    if schedule.is_running and schedule.status == "active":
        return "The run that is under way is its last."
    return f"It is {schedule.status}."


def runs_answer(rows: Sequence[Mapping[str, Any]], cursor: str | None, timezone: str) -> RunsAnswer:
    """The history of a schedule."""
    runs = [
        RunAnswer(
            status=row["status"],
            reason=row["reason"],
            due_in_words=_spoken(row["fire_at"], timezone),
            started_in_words=_spoken(row["started_at"], timezone),
            duration_ms=row["duration_ms"],
            result=_short(row["whole_result"] or row["result"]),
            error=_short(row["error"]),
        )
        for row in rows
    ]
    found = f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}, newest first." if runs else "It has not run yet."
    return RunsAnswer(message=found, runs=runs, cursor=cursor)


def _short(text: str | None) -> str | None:
    return None if text is None else cut(text, RESULT_SHOWN)


def _spoken(iso: str | None, timezone: str) -> str | None:
    return None if iso is None else spoken_time(from_datetime(datetime.fromisoformat(iso)), timezone)
