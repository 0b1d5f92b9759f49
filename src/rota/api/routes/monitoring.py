"""What ran, waits and failed, counted over all instances, for programs that watch the scheduler interface."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query

from rota.access import Role
from rota.api.auth import Viewing
from rota.api.models import AnswerModel, Moment, an_example
from rota.api.routing import routes_for
from rota.app.overview import failures, monitoring, queues

__all__ = ["router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="monitoring", prefix="/api/monitoring")


class FailedRunModel(AnswerModel):
    """One run that failed."""

    model_config = an_example(error_message="ConnectionError: timed out after 30 s")

    task_type: str
    user_key: str
    error_message: str | None
    """What went wrong, in a line."""
    duration_ms: int
    timestamp: Moment
    """When the run began."""


class ModeTallyModel(AnswerModel):
    """How runs ended."""

    model_config = an_example(count=120, success_count=117, failure_count=3)

    count: int
    """How many runs there were."""
    success_count: int
    """How many succeeded."""
    failure_count: int
    """How many failed."""


class TypeTallyModel(ModeTallyModel):
    """How runs of a type ended, and how long they took."""

    model_config = an_example(
        count=120, success_count=117, failure_count=3, avg_duration_ms=1310.5, max_duration_ms=4020, min_duration_ms=640
    )

    avg_duration_ms: float | None
    """How long one took on average; null without runs."""
    max_duration_ms: int | None
    """How long the longest took."""
    min_duration_ms: int | None
    """How long the shortest took."""


class MonitoringModel(AnswerModel):
    """What ran."""

    model_config = an_example(
        by_trigger_mode={"user_activity": {"count": 120, "success_count": 117, "failure_count": 3}}
    )

    total_executions: int
    by_task_type: dict[str, TypeTallyModel]
    """The same for each task type."""
    by_trigger_mode: dict[str, ModeTallyModel]
    """The same for each way of becoming due."""
    recent_failures: list[FailedRunModel]


class MonitoringAnswer(AnswerModel):
    """What ran."""

    success: Literal[True]
    data: MonitoringModel


class DepthModel(AnswerModel):
    """How many wait, and whether the type is on."""

    model_config = an_example(depth=12, enabled=True)

    depth: int
    """How many wait."""
    enabled: bool
    """Whether the type is on."""


class QueueDepthsModel(AnswerModel):
    """Every queue."""

    queues: dict[str, DepthModel]
    """By task type."""


class QueueDepthsAnswer(AnswerModel):
    """Every queue."""

    success: Literal[True]
    data: QueueDepthsModel


class FailureShareModel(AnswerModel):
    """How much of a type failed."""

    model_config = an_example(total=120)

    total: int
    """How many runs there were."""
    failures: int
    failure_rate: float


class FailureSharesModel(AnswerModel):
    """How much failed."""

    model_config = an_example(time_range_hours=1)

    time_range_hours: int
    """How many hours were looked at."""
    total_executions: int
    by_task_type: dict[str, FailureShareModel]
    """How much failed, for each task type."""
    recent_failures: list[FailedRunModel]


class FailuresAnswer(AnswerModel):
    """How much failed."""

    success: Literal[True]
    data: FailureSharesModel


@router.get("/scheduler", operation_id="monitor_scheduler", response_model=MonitoringAnswer)
async def monitor_scheduler(
    service: Viewing, hours: Annotated[int, Query(ge=1, le=168, description="How far back.")] = 24
) -> dict[str, object]:
    """What ran within the last hours."""
    return {"success": True, "data": (await monitoring(service.app, hours)).to_dict()}


@router.get("/scheduler/queues", operation_id="monitor_queues", response_model=QueueDepthsAnswer)
async def monitor_queues(service: Viewing) -> dict[str, object]:
    """How many tasks of each type wait."""
    return {"success": True, "data": (await queues(service.app)).to_dict()}


@router.get("/scheduler/failures", operation_id="monitor_failures", response_model=FailuresAnswer)
async def monitor_failures(
    service: Viewing, hours: Annotated[int, Query(ge=1, le=24, description="How far back.")] = 1
) -> dict[str, object]:
    """How much failed within the last hours."""
    return {"success": True, "data": (await failures(service.app, hours)).to_dict()}
