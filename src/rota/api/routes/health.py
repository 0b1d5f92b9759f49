"""Whether it lives, whether it works, what it measures, who is asking."""

from __future__ import annotations

from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response

from rota.access import Role
from rota.api.auth import Calling, Viewing
from rota.api.models import AnswerModel
from rota.api.problems import Refused
from rota.api.routing import routes_for
from rota.api.service import Service
from rota.errors import StoreError

__all__ = ["open_router", "router"]

open_router: Final[APIRouter] = routes_for(None, tag="health", prefix="")
router: Final[APIRouter] = routes_for(Role.VIEWER, tag="health", prefix="")


class AliveModel(AnswerModel):
    """The process answers."""

    status: Literal["ok"]


class ReadyModel(AnswerModel):
    """Whether this process can do its work, and if not, why."""

    status: Literal["ok", "not_ready"]
    store: Literal["ok", "away"]
    can_claim: bool | None
    """None: this process serves, and runs no worker."""
    reasons: list[str]
    seconds_since_good: dict[str, float | None]
    running: int
    spooled: int


class MeModel(AnswerModel):
    """Whoever asks."""

    id: str
    name: str
    role: Role
    via: str


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
    is_store_there = await _reaches_store(service)
    health = service.app.health()
    serves_only = not service.app.host.background.is_started
    can_claim = None if serves_only else health.ok
    ok = is_store_there and can_claim is not False
    response.status_code = 200 if ok else 503
    reasons = [] if serves_only else [_first_words(reason) for reason in health.reasons]
    return {
        "status": "ok" if ok else "not_ready",
        "store": "ok" if is_store_there else "away",
        "can_claim": can_claim,
        "reasons": reasons if is_store_there else [*reasons, "The store cannot be reached."],
        "seconds_since_good": dict(health.seconds_since_good or {}),
        "running": health.running,
        "spooled": health.spooled,
    }


async def _reaches_store(service: Service) -> bool:
    try:
        store = await service.app.store()
        await store.now()
    except StoreError:
        return False
    return True


def _first_words(reason: str) -> str:
    """Anybody may read this: that a loop fails, but not the error's text, which may name addresses."""
    return reason.partition(". ")[0].rstrip(".") + "."


@router.get(
    "/metrics",
    operation_id="read_metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}, "description": "In Prometheus' text format."}},
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
    responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
)
async def describe_api(request: Request) -> dict[str, Any]:
    """This description."""
    described: dict[str, Any] = request.app.openapi()
    return described
