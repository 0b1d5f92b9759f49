"""Alerts: what fires now, what fired before, and what rules can look at."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter

from rota.access import Role
from rota.alerts import Alerts, shown_kinds
from rota.api.auth import Viewing
from rota.api.models import AnswerModel, Json, Moment
from rota.api.paging import Cursor, Limit
from rota.api.routing import routes_for
from rota.core.alert import AlertChange, AlertUnit

__all__ = ["router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="alerts")


class FiringModel(AnswerModel):
    """A rule that fires now, for a type or an instance."""

    rule: str
    subject: str
    since_at: Moment
    seen_at: Moment
    value: str
    summary: str
    is_clearing: bool


class AlertEventModel(AnswerModel):
    """A rule began to fire, or was resolved; and what became of telling so."""

    id: int
    at: Moment
    rule: str
    subject: str
    state: AlertChange
    value: str
    summary: str
    delivered: dict[str, dict[str, Json]]


class AlertsModel(AnswerModel):
    """What fires now, and a page of what fired before."""

    firing: list[FiringModel]
    history: list[AlertEventModel]
    cursor: str | None


class AlertKindModel(AnswerModel):
    """What a rule can look at, and the threshold of one that says none."""

    kind: str
    about: str
    threshold: str
    unit: AlertUnit
    takes_type: bool


class AlertKindsModel(AnswerModel):
    """Every kind of this process: the engine's, and those that its parts bring."""

    items: list[AlertKindModel]


@router.get("/alerts", operation_id="list_alerts", response_model=AlertsModel)
async def list_alerts(service: Viewing, cursor: Cursor = None, limit: Limit = 50) -> dict[str, Any]:
    """What fires now, and a page of what began to fire and what was resolved, newest first."""
    alerts = Alerts(await service.app.database())
    page = await alerts.history(limit, cursor)
    return {
        "firing": [firing.to_dict() for firing in await alerts.firing()],
        "history": [event.to_dict() for event in page.items],
        "cursor": page.cursor,
    }


@router.get("/alerts/kinds", operation_id="list_alert_kinds", response_model=AlertKindsModel)
async def list_alert_kinds(service: Viewing) -> dict[str, Any]:
    """What rules can look at: the kinds of the engine and of every part."""
    return {"items": shown_kinds(service.app.host.parts.values())}
