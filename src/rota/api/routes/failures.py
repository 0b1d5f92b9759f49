"""Failures by groups: what fails, how often, since when and for how many; redrive those of one group, or mute it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path
from pydantic import Field

from rota.access import Role
from rota.api.auth import Acting, Viewing
from rota.api.filters import TypeFilter
from rota.api.models import AnswerModel, Duration, Moment, RequestModel, an_example
from rota.api.paths import TypeInPath
from rota.api.routes.task_models import BulkAnswer, Confirmed, RunModel
from rota.api.routes.tasks import carry_out
from rota.api.routing import routes_for
from rota.app.failures import FailureInfo, one_failure, those_dead
from rota.app.results import RunInfo
from rota.clock import parse_duration
from rota.core.task import Transition
from rota.stores.base import RunQuery

__all__ = ["acting", "router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="failures")
acting: Final[APIRouter] = routes_for(Role.OPERATOR, tag="failures")

LATEST_RUNS: Final = 10
FailureInPath = Annotated[
    str,
    Path(description="The id of the group.", pattern="^[0-9a-z]{1,40}$", examples=["1ff5d5bf2d3e"]),
]


class FailureModel(AnswerModel):
    """Failures that are the same one."""

    model_config = an_example(
        id="1ff5d5bf2d3e",
        exception="ConnectionError",
        place="app/payments.py:charge",
        message="payment gateway: timed out after * s",
        count=75,
        users=23,
        dead=23,
        last_hour=4,
        last_day=75,
    )

    task_type: str
    id: str
    """What the group is called within its type."""
    exception: str
    """The class that was raised, or the reason where nothing was."""
    place: str
    """Where in the program it was raised."""
    message: str
    """What was said, with what differs from one time to the next left out."""
    count: int
    """How often it was seen."""
    users: int
    """How many users it has hit; many are estimated."""
    dead: int
    """Dead letters that belong to it now."""
    first_at: Moment
    """When it was seen first."""
    last_at: Moment
    """When it was seen last."""
    last_hour: int
    """How often within the last hour."""
    last_day: int
    """How often within the last 24 hours."""
    hours: list[int]
    """How many in each of the last 48 hours, the last one at the end."""
    muted_until: Moment | None
    """Until when nobody wants to hear of it; null: it is heard of."""
    muted_by: str | None
    """Who muted it."""


class FailuresModel(AnswerModel):
    """Every group of failures."""

    items: list[FailureModel]


class FailureRunsModel(FailureModel):
    """A group with its latest runs."""

    runs: list[RunModel]
    """Its latest runs, the newest first."""


class MuteRequest(RequestModel):
    """For how long nobody wants to hear of it."""

    duration: Annotated[Duration, Field(description="Like `4h` or `7d`.", examples=["4h"])]


@router.get("/failures", operation_id="list_failures", response_model=FailuresModel)
async def list_failures(service: Viewing, task_type: TypeFilter = None) -> dict[str, Any]:
    """All groups of failures, the one seen last first."""
    store = await service.app.store()
    now = service.clock.now()
    return {"items": [FailureInfo.of(found, now).to_dict() for found in await store.failures(task_type)]}


@router.get("/failures/{task_type}/{failure}", operation_id="get_failure", response_model=FailureRunsModel)
async def get_failure(
    service: Viewing,
    task_type: TypeInPath,
    failure: FailureInPath,
) -> dict[str, Any]:
    """One group, with its latest runs."""
    store = await service.app.store()
    found = await one_failure(store, task_type, failure)
    runs = await store.runs(RunQuery(task_type=task_type, failure=failure, limit=LATEST_RUNS))
    shown = FailureInfo.of(found, service.clock.now()).to_dict()
    return {**shown, "runs": [RunInfo.of(run).to_dict() for run in runs.items]}


@acting.post("/failures/{task_type}/{failure}/redrive", operation_id="redrive_failure", response_model=BulkAnswer)
async def redrive_failure(
    service: Viewing,
    operator: Acting,
    task_type: TypeInPath,
    failure: FailureInPath,
    request: Confirmed,
) -> dict[str, object]:
    """Give the dead letters of this group another chance, and no others."""
    found = await one_failure(await service.app.store(), task_type, failure)
    query = those_dead(found.group)
    return await carry_out(operator, Transition.REDRIVE, query, dry_run=request.dry_run, expected=request.expected)


@acting.post("/failures/{task_type}/{failure}/mute", operation_id="mute_failure", response_model=FailureModel)
async def mute_failure(
    service: Viewing,
    operator: Acting,
    task_type: TypeInPath,
    failure: FailureInPath,
    request: MuteRequest,
) -> dict[str, object]:
    """Leave this group aside for a time: it is counted on, and shown as muted."""
    now = service.clock.now()
    until = now + parse_duration(request.duration, what="duration")
    return FailureInfo.of(await operator.mute_failure(task_type, failure, until), now).to_dict()


@acting.post("/failures/{task_type}/{failure}/unmute", operation_id="unmute_failure", response_model=FailureModel)
async def unmute_failure(
    service: Viewing,
    operator: Acting,
    task_type: TypeInPath,
    failure: FailureInPath,
) -> dict[str, object]:
    """Hear of this group again."""
    return FailureInfo.of(await operator.mute_failure(task_type, failure, None), service.clock.now()).to_dict()
