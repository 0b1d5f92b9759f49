"""Whether it lives, whether it works, what it measures, who is asking."""

from __future__ import annotations

from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response

from rota.access import Role
from rota.api.auth import Calling, Viewing
from rota.api.models import AnswerModel, an_example
from rota.api.problems import Refused
from rota.api.routing import routes_for
from rota.app.readiness import readiness

__all__ = ["open_router", "router"]

open_router: Final[APIRouter] = routes_for(None, tag="health", prefix="")
router: Final[APIRouter] = routes_for(Role.VIEWER, tag="health", prefix="")


class AliveModel(AnswerModel):
    """The process answers."""

    status: Literal["ok"]
    """Always `ok`."""


class ReadyModel(AnswerModel):
    """Whether this process can do its work, and if not, why."""

    model_config = an_example(can_claim=True, running=2, seconds_since_good={"claim": 0.2})

    status: Literal["ok", "not_ready"]
    """Whether it can do its work."""
    store: Literal["ok", "away"]
    """Whether the store can be reached."""
    can_claim: bool | None
    """None: this process serves, and runs no worker."""
    reasons: list[str]
    """Why it is not ready, a sentence each."""
    seconds_since_good: dict[str, float | None]
    """For each of its loops, how long ago it last did well; null: never."""
    running: int
    """How many runs it has under way."""
    spooled: int
    """How many activities wait on this host's disk for the store."""


class MeModel(AnswerModel):
    """Whoever asks."""

    model_config = an_example(id="token:1882da2d", name="deploy", role="operator", via="api")

    id: str
    """Who is asking, as the audit log has it."""
    name: str
    """The name of the token."""
    role: Role
    """What it allows."""
    via: str
    """How it came: with a token, or with the dashboard's session."""


@open_router.get("/healthz", operation_id="check_alive", response_model=AliveModel)
async def check_alive() -> dict[str, str]:
    """Whether the process answers at all."""
    return {"status": "ok"}


@open_router.get(
    "/readyz",
    operation_id="check_ready",
    response_model=ReadyModel,
    responses={503: {"model": ReadyModel, "description": "It cannot do its work now; `reasons` says why."}},
)
async def check_ready(service: Viewing, response: Response) -> dict[str, Any]:
    """Whether the process can do its work: it reaches the store and, if it has a worker, can still claim."""
    found = await readiness(service.app)
    response.status_code = 200 if found.ok else 503
    return found.to_dict()


@router.get(
    "/metrics",
    operation_id="read_metrics",
    response_class=Response,
    responses={
        200: {
            "content": {"text/plain": {"example": 'rota_runs_total{type="report",status="success",reason=""} 117.0\n'}},
            "description": "In Prometheus' text format.",
        }
    },
)
async def read_metrics(service: Viewing) -> Response:
    """What this process measures."""
    if service.metrics is None:
        raise Refused(404, "not_found", "This process keeps no metrics.")
    content_type, text = await service.metrics.render()
    return Response(text, headers={"Content-Type": content_type})


@router.get("/api/me", operation_id="who_am_i", response_model=MeModel)
async def who_am_i(principal: Calling) -> dict[str, str]:
    """Whose token this is, and what it may do."""
    return {"id": principal.id, "name": principal.name, "role": principal.role.value, "via": principal.via}


@router.get(
    "/api/openapi.json",
    operation_id="describe_api",
    responses={200: {"content": {"application/json": {"schema": {"type": "object"}, "example": {"openapi": "3.1.0"}}}}},
)
async def describe_api(request: Request) -> dict[str, Any]:
    """This description."""
    described: dict[str, Any] = request.app.openapi()
    return described
