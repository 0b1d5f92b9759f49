"""Alerts: what fires now, how every rule stands, silence for a time, what fired before, and what rules can look at."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path
from pydantic import Field

from rota.access import Role
from rota.alerts import AlertOperator, Alerts, rules_as_they_stand, shown_kinds
from rota.alerts.silences import MAX_REASON
from rota.api.auth import Calling, Viewing
from rota.api.models import NO_NUL, AnswerModel, Duration, Json, Moment, RequestModel, an_example
from rota.api.paging import Cursor, Limit
from rota.api.routing import routes_for
from rota.clock import Millis, parse_duration
from rota.core.alert import AlertChange, AlertState, AlertUnit

__all__ = ["acting", "router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="alerts")
acting: Final[APIRouter] = routes_for(Role.OPERATOR, tag="alerts")

RuleInPath = Annotated[str, Path(description="The name of a rule.", max_length=255, pattern=NO_NUL, examples=["late"])]
Subject = Annotated[
    str,
    Field(
        max_length=255,
        pattern=NO_NUL,
        description="One type (or instance) of the rule. Left out: all that it looks at.",
        examples=["memory_compression"],
    ),
]


class FiringModel(AnswerModel):
    """A rule that fires now, for a type or an instance."""

    model_config = an_example(rule="late", subject="report", value="42 s", summary="Tasks of report begin 42 s late.")

    rule: str
    """The name of the rule."""
    subject: str
    """The type, the instance or whatever else it is about."""
    since_at: Moment
    """Since when it fires."""
    seen_at: Moment
    value: Annotated[str, Field(description="How much it is now.")]
    summary: str
    is_clearing: bool
    """Whether it would be resolved if it stayed like this."""
    silenced_until: Annotated[Moment | None, Field(description="Until when its sinks are told of nothing.")]


class AlertEventModel(AnswerModel):
    """A rule began to fire, or was resolved; and what became of telling so."""

    model_config = an_example(
        id=12,
        rule="late",
        subject="report",
        value="42 s",
        summary="Tasks of report begin 42 s late.",
        delivered={"log": {"ok": True}},
    )

    id: int
    """Its number; later ones have more."""
    at: Moment
    """When it was."""
    rule: str
    """The name of the rule."""
    subject: str
    """The type, the instance or whatever else it is about."""
    state: AlertChange
    """Whether it began to fire, or was resolved."""
    value: str
    """What was measured."""
    summary: str
    delivered: dict[str, dict[str, Json]]
    """Who was told, and how that went."""
    silenced: Annotated[bool, Field(description="Whether nobody was told, because somebody wanted silence.")]


class AlertsModel(AnswerModel):
    """What fires now, and a page of what fired before."""

    firing: list[FiringModel]
    """What fires now."""
    history: list[AlertEventModel]
    """What fired before, the newest first."""
    cursor: str | None


class SilenceModel(AnswerModel):
    """Who wants silence of a rule, or of one subject of it, until when, and why."""

    rule: str
    """The name of the rule."""
    subject: Annotated[str, Field(description="Empty: all that the rule looks at.")]
    until_at: Moment
    """When it ends."""
    made_at: Moment
    """When it was asked for."""
    made_by: str
    """Who asked for it."""
    reason: str


class RuleStateModel(AnswerModel):
    """A rule as it stands over all its subjects."""

    rule: str
    """The name of the rule."""
    kind: str
    """What it looks at."""
    type: Annotated[str | None, Field(description="The one task type that it is about; null: each.")]
    threshold: str
    """From which value on it fires."""
    for_ms: Annotated[Millis, Field(description="For how long its condition must hold before it fires.")]
    sinks: list[str]
    """Who is told."""
    state: Annotated[AlertState | None, Field(description="The worst of its subjects; null: not looked at yet.")]
    since_at: Moment | None
    """Since when it fires; null: it does not."""
    firing: Annotated[int, Field(description="How many subjects fire.")]
    subject: Annotated[str, Field(description="The one that is nearest to the threshold.")]
    value: Annotated[str, Field(description="How much that is, as it was last measured.")]
    seen_at: Moment | None
    silenced_until: Moment | None
    """Until when its sinks are told of nothing."""
    silences: list[SilenceModel]
    """Who wanted silence, and until when."""


class RuleStatesModel(AnswerModel):
    """Every rule that is looked at, and every one of this configuration."""

    items: list[RuleStateModel]


class UnsilenceRequest(RequestModel):
    """What is to be heard again."""

    subject: Subject = ""


class SilenceRequest(UnsilenceRequest):
    """What nobody is to be told of, for how long, and why."""

    duration: Annotated[Duration, Field(description="Like `4h` or `7d`; 1m to 30d.", examples=["4h"])]
    reason: Annotated[str, Field(max_length=MAX_REASON, pattern=NO_NUL, examples=["being worked on"])] = ""


class AlertKindModel(AnswerModel):
    """What a rule can look at, and the threshold of one that says none."""

    model_config = an_example(kind="lateness", about="How late tasks begin.", threshold="30s", unit="seconds")

    kind: str
    """The word for it in a rule."""
    about: str
    """What it looks at."""
    threshold: str
    """From which value on it fires, if the rule says none."""
    unit: AlertUnit
    """What the threshold is counted in."""
    takes_type: bool
    """Whether a rule of this kind may name a task type."""


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


@router.get("/alerts/rules", operation_id="list_alert_rules", response_model=RuleStatesModel)
async def list_alert_rules(service: Viewing) -> dict[str, Any]:
    """Every rule: how it stands, with the value that is nearest to its threshold, and who wants silence of it."""
    return {"items": [rule.to_dict() for rule in await rules_as_they_stand(service.app)]}


@acting.post("/alerts/rules/{rule}/silence", operation_id="silence_alert", response_model=SilenceModel)
async def silence_alert(
    service: Viewing, principal: Calling, rule: RuleInPath, request: SilenceRequest
) -> dict[str, object]:
    """Tell nobody of a rule for a time. What fires is shown all the same, and told if it still fires at the end."""
    duration_ms = parse_duration(request.duration, what="duration")
    operator = AlertOperator(service.app, principal)
    return (await operator.silence(rule, request.subject, duration_ms, request.reason)).to_dict()


@acting.post("/alerts/rules/{rule}/unsilence", operation_id="unsilence_alert", status_code=204)
async def unsilence_alert(service: Viewing, principal: Calling, rule: RuleInPath, request: UnsilenceRequest) -> None:
    """Hear of a rule again: what fires still is told now."""
    await AlertOperator(service.app, principal).unsilence(rule, request.subject)


@router.get("/alerts/kinds", operation_id="list_alert_kinds", response_model=AlertKindsModel)
async def list_alert_kinds(service: Viewing) -> dict[str, Any]:
    """What rules can look at: the kinds of the engine and of every part."""
    return {"items": shown_kinds(service.app.host.parts.values())}
