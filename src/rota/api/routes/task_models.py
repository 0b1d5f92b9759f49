"""Tasks and runs as several routes take and give them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rota.api.models import AnswerModel, Json, Key, Moment, RequestModel, TypeName
from rota.api.routes.waterfall_models import WaterfallModel
from rota.core.task import RunStatus, TaskStatus, Want

__all__ = ["BulkAnswer", "Confirmed", "IdentityModel", "RunModel", "RunWithDetailsModel", "TaskModel"]


class IdentityModel(RequestModel):
    """Which task."""

    task_type: TypeName
    key: Key


class TaskModel(AnswerModel):
    """One task as it stands."""

    task_type: str
    key: str
    status: TaskStatus
    scheduled_at: Moment
    created_at: Moment
    updated_at: Moment
    user_id: str | None
    device_id: str | None
    agent_id: str | None
    owner: str | None
    payload: Json
    priority: int
    serial: str | None
    coalesced: int
    last_activity_at: Moment | None
    fire_at: Moment | None
    next_fire: Moment | None
    want: Want
    attempt: int
    errors: int
    crashes: int
    instance: str | None
    lease_until: Moment | None
    finished_at: Moment | None
    reason: str | None
    error: str | None
    result: str | None
    progress: Json
    failure: str | None
    """The group that its last failure belongs to."""


class RunModel(AnswerModel):
    """One run, or one range of fires that were not run one by one."""

    run_id: str
    task_type: str
    key: str
    user_key: str
    status: RunStatus
    trigger_mode: str
    started_at: Moment
    duration_ms: int
    fire_at: Moment | None
    last_fire_at: Moment | None
    fires: int
    attempt: int
    token: int
    instance: str | None
    user_id: str | None
    reason: str | None
    result: str | None
    error: str | None
    due_at: Moment | None
    """When this attempt was due: from then on it waited."""
    failure: str | None
    """The group that its failure belongs to."""


class LineModel(AnswerModel):
    """One line that was logged or printed."""

    at_ms: int
    """After the handler's start."""
    level: str
    logger: str
    text: str


class ProgressModel(AnswerModel):
    """One report of progress."""

    at_ms: int
    value: Json


class StepModel(AnswerModel):
    """A named part of a run; without an end it had not ended."""

    name: str
    from_ms: int
    to_ms: int | None
    error: str | None


class DetailsModel(AnswerModel):
    """What a run has left; secrets are hidden."""

    host: str
    pid: int
    waited_ms: int
    """From the claim to the handler's start."""
    exception: str | None
    place: str | None
    traceback: str | None
    lines: list[LineModel]
    lines_left_out: int
    progress: list[ProgressModel]
    progress_left_out: int
    steps: list[StepModel]
    payload: Json


class RunWithDetailsModel(RunModel):
    """A run with what it has left, if that is anything, and where the time of all attempts at its work went."""

    details: DetailsModel | None
    waterfall: WaterfallModel


class Confirmed(RequestModel):
    dry_run: bool = False
    """Only count."""
    expected: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None
    """How many tasks somebody agreed to. If it is another number now, nothing is changed."""


class BulkAnswer(AnswerModel):
    """How many tasks were meant, and what became of them."""

    matched: int
    matched_is_all: bool
    """False: there are more than were counted."""
    changed: int
    refused: int
