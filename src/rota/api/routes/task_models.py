"""Tasks and runs as several routes take and give them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rota.api.models import AnswerModel, Json, Key, Moment, RequestModel, TypeName, an_example
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
    """Where it stands in its life."""
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
    """What is to become of it when its run ends."""
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
    """How it ended."""
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

    model_config = an_example(at_ms=12, level="INFO", logger="app.memory", text="40 to look at")

    at_ms: int
    """After the handler's start."""
    level: str
    """How important it is, as `logging` has it, or `print`."""
    logger: str
    """Who logged it."""
    text: str
    """What it says."""


class ProgressModel(AnswerModel):
    """One report of progress."""

    model_config = an_example(at_ms=400, value={"done": 20, "of": 40})

    at_ms: int
    """After the handler's start, in milliseconds."""
    value: Json
    """What was reported: any JSON."""


class StepModel(AnswerModel):
    """A named part of a run; without an end it had not ended."""

    model_config = an_example(name="ask the model", from_ms=15, to_ms=1180)

    name: str
    """What the handler calls it."""
    from_ms: int
    """When it began, after the handler's start, in milliseconds."""
    to_ms: int | None
    """When it ended; null: it never did."""
    error: str | None


class DetailsModel(AnswerModel):
    """What a run has left; secrets are hidden."""

    model_config = an_example(waited_ms=3)

    host: str
    pid: int
    waited_ms: int
    """From the claim to the handler's start."""
    exception: str | None
    """The class that was raised; null without a failure."""
    place: str | None
    """The file and the function that raised it, within the program."""
    traceback: str | None
    """The way to it through the program, as Python writes it, shortened in the middle."""
    lines: list[LineModel]
    """What it logged and printed, in order."""
    lines_left_out: int
    """How many lines were too many to keep."""
    progress: list[ProgressModel]
    """What it reported on its way."""
    progress_left_out: int
    """How many reports were too many to keep."""
    steps: list[StepModel]
    """The parts of it that the handler has named."""
    payload: Json


class RunWithDetailsModel(RunModel):
    """A run with what it has left, if that is anything, and where the time of all attempts at its work went."""

    details: DetailsModel | None
    """What it has left; null if that is nothing, or its retention is over."""
    waterfall: WaterfallModel
    """Where the time of all attempts at its work went."""


class Confirmed(RequestModel):
    """What is to be done to many: counted first, and then done to as many as were counted."""

    dry_run: bool = False
    """Only count."""
    expected: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None
    """How many tasks somebody agreed to. If it is another number now, nothing is changed."""


class BulkAnswer(AnswerModel):
    """How many tasks were meant, and what became of them."""

    model_config = an_example(matched_is_all=True)

    matched: int
    matched_is_all: bool
    """False: there are more than were counted."""
    changed: int
    refused: int
    """How many could not be changed, for the state that they are in."""
