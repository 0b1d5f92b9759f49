"""The seeds' monitoring, at its own addresses and in its own shapes, counted over all instances."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query

from rota.access import Role
from rota.api.auth import Viewing
from rota.api.models import FailuresAnswer, MonitoringAnswer, QueueDepthsAnswer
from rota.api.routing import routes_for
from rota.app.overview import failures, monitoring, queues

__all__ = ["router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="monitoring", prefix="/api/monitoring")


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
