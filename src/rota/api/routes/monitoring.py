"""What ran, waits and failed, counted over all instances, for programs that watch the scheduler interface."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query

from rota.access import Role
from rota.api.auth import Viewing
from rota.api.models import AnswerModel, Moment
from rota.api.routing import routes_for
from rota.app.overview import failures, monitoring, queues

__all__ = ["router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="monitoring", prefix="/api/monitoring")


class FailureModel(AnswerModel):
    """One run that failed."""

    task_type: str
    user_key: str
    error_message: str | None
    duration_ms: int
    timestamp: Moment


class ModeTallyModel(AnswerModel):
    """How runs ended."""

    count: int
    success_count: int
    failure_count: int


class TypeTallyModel(ModeTallyModel):
    """How runs of a type ended, and how long they took."""

    avg_duration_ms: float | None
    max_duration_ms: int | None
    min_duration_ms: int | None


class MonitoringModel(AnswerModel):
    """What ran."""

    total_executions: int
    by_task_type: dict[str, TypeTallyModel]
    by_trigger_mode: dict[str, ModeTallyModel]
    recent_failures: list[FailureModel]


class MonitoringAnswer(AnswerModel):
    """What ran."""

    success: Literal[True]
    data: MonitoringModel


class DepthModel(AnswerModel):
    """How many wait, and whether the type is on."""

    depth: int
    enabled: bool


class QueueDepthsModel(AnswerModel):
    """Every queue."""

    queues: dict[str, DepthModel]


class QueueDepthsAnswer(AnswerModel):
    """Every queue."""

    success: Literal[True]
    data: QueueDepthsModel


class FailureShareModel(AnswerModel):
    """How much of a type failed."""

    total: int
    failures: int
    failure_rate: float


class FailuresModel(AnswerModel):
    """How much failed."""

    time_range_hours: int
    total_executions: int
    by_task_type: dict[str, FailureShareModel]
    recent_failures: list[FailureModel]


class FailuresAnswer(AnswerModel):
    """How much failed."""

    success: Literal[True]
    data: FailuresModel


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
