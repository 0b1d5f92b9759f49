"""Schedules: tasks with a trigger of their own, made at run time."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field

from rota.access import Role
from rota.api.auth import Acting, Viewing
from rota.api.filters import IdFilter, TaskSortChoice, TypeFilter
from rota.api.models import (
    AnswerModel,
    Duration,
    Json,
    Moment,
    Positive,
    Priority,
    RequestModel,
    SortedPageModel,
    Text,
    When,
    an_example,
)
from rota.api.paging import Cursor, Limit, sorted_page_shape
from rota.api.paths import KeyInPath, TypeInPath
from rota.api.routing import routes_for
from rota.api.service import Service
from rota.app.results import ScheduleInfo
from rota.core.task import Identity, TaskStatus, Transition
from rota.errors import UnknownTask
from rota.stores.base import TaskSort
from rota.triggers import Cron, decode_trigger, explain

__all__ = ["acting", "router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="schedules")
acting: Final[APIRouter] = routes_for(Role.OPERATOR, tag="schedules")

MAX_FIRES: Final = 100
Fires = Annotated[int, Query(ge=0, le=MAX_FIRES, description="How many fires to list.")]


Misfire = Literal["latest", "all", "skip"]
Overlap = Literal["skip", "queue"]


class ScheduleModel(AnswerModel):
    """One schedule."""

    model_config = an_example(
        id="morning",
        task_type="report",
        kind="cron",
        value="0 9 * * 1-5",
        words="at 09:00 from Monday to Friday",
        runs=12,
        version=1,
    )

    id: str
    """Its id within its type, as whoever made it chose."""
    task_type: str
    status: TaskStatus
    """Where it stands in its life."""
    kind: str
    """`cron`, `interval` or `once`."""
    value: str
    """The cron expression, the milliseconds between two fires, or the moment."""
    timezone: str
    words: str
    """The same in words."""
    next_fire: Moment | None
    payload: Json
    owner: str | None
    priority: int
    serial: str | None
    misfire: Misfire
    """What becomes of fires that were missed: only the latest is run, all are, or none."""
    overlap: Overlap
    """What becomes of a fire while the one before it runs: it is skipped, or waits."""
    jitter_ms: int
    """Each fire is moved back by chance by at most so many milliseconds."""
    grace_ms: int | None
    """A fire that is later than so many milliseconds counts as missed; null: none does."""
    runs: int
    """How many of its fires were run."""
    max_runs: int | None
    """After so many runs it is over; null: it goes on."""
    expires_at: Moment | None
    created_at: Moment
    updated_at: Moment
    version: int
    """It grows with every change."""
    reason: str | None
    result: str | None
    """What the handler returned last, as text."""
    error: str | None


class _Trigger(RequestModel):
    """When it fires: exactly one of cron, every and at says so."""

    model_config = an_example(cron="0 9 * * 1-5", timezone="Europe/Berlin")

    cron: Annotated[str, Field(min_length=1, max_length=256, examples=["0 9 * * 1-5"])] | None = None
    """A cron expression of five or six fields."""
    every: Duration | None = None
    """The time between two fires."""
    at: When | None = None
    """The moment of the only fire."""
    timezone: Annotated[str, Field(min_length=1, max_length=64, examples=["Europe/Berlin"])] | None = None
    """The zone that `cron` and `at` are in; without it the service's."""
    jitter: Duration = 0
    """Move each fire back by chance by at most this."""


class ScheduleRequest(_Trigger):
    """A schedule as it is to be: exactly one of cron, every and at says when."""

    model_config = an_example(cron="0 9 * * 1-5", timezone="Europe/Berlin", payload={"days": 1}, owner="ann")

    payload: Json = None
    owner: Text | None = None
    misfire: Misfire = "latest"
    """What becomes of fires that were missed: only the latest is run, all are, or none."""
    overlap: Overlap = "skip"
    """What becomes of a fire while the one before it runs: it is skipped, or waits."""
    grace: Duration | None = None
    """A fire that is later than this counts as missed."""
    max_runs: Positive | None = None
    """After so many runs it is over."""
    expires: When | None = None
    priority: Priority | None = None
    serial: Text | None = None


class PreviewRequest(_Trigger):
    """A trigger to be looked at."""

    model_config = an_example(cron="0 9 * * 1-5", timezone="Europe/Berlin", n=3)

    n: Annotated[int, Field(ge=0, le=100)] = 5
    """How many fires to list."""


class FiresModel(AnswerModel):
    """A trigger in words, its next fires in its own zone, and notes on what is not obvious."""

    model_config = an_example(words="at 09:00 from Monday to Friday", fires=["2026-11-20T09:00:00+01:00"])

    words: str
    """The trigger in words."""
    fires: list[Moment]
    """When it fires next, in its own zone."""
    notes: list[str]
    """What is not obvious, like a change of the clocks."""


@router.get("/schedules", operation_id="list_schedules", response_model=SortedPageModel[ScheduleModel])
async def list_schedules(
    service: Viewing,
    task_type: TypeFilter = None,
    owner: IdFilter = None,
    status: TaskStatus | None = None,
    sort: TaskSortChoice = TaskSort.KEY,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """A page of schedules by type and id unless it is sorted otherwise."""
    page = await service.app.schedules.list(
        type=task_type, owner=owner, status=status, sort=sort, cursor=cursor, limit=limit
    )
    return sorted_page_shape(page, lambda info: info.to_dict())


@router.post("/schedules/preview", operation_id="preview_schedule", response_model=FiresModel)
async def preview_schedule(service: Viewing, request: PreviewRequest) -> object:
    """A trigger in words, and when it would fire. Nothing is made."""
    return msgspec.to_builtins(
        service.app.schedules.explain(
            cron=request.cron,
            every=request.every,
            at=request.at,
            timezone=request.timezone,
            n=request.n,
            jitter=request.jitter,
        )
    )


@router.get("/schedules/{task_type}/{id}", operation_id="get_schedule", response_model=ScheduleModel)
async def get_schedule(
    service: Viewing,
    task_type: TypeInPath,
    id: KeyInPath,  # noqa: A002 - the word of the address
) -> dict[str, object]:
    """One schedule."""
    return (await _found(service, task_type, id)).to_dict()


@acting.put("/schedules/{task_type}/{id}", operation_id="put_schedule", response_model=ScheduleModel)
async def put_schedule(
    operator: Acting,
    task_type: TypeInPath,
    id: KeyInPath,  # noqa: A002 - the word of the address
    request: ScheduleRequest,
) -> dict[str, object]:
    """Make the schedule, or change the live one of this id. The same again changes nothing."""
    settings = request.model_dump(exclude_unset=True)
    return (await operator.upsert_schedule(id, task_type, **settings)).to_dict()


@router.get("/schedules/{task_type}/{id}/fires", operation_id="list_fires", response_model=FiresModel)
async def list_fires(
    service: Viewing,
    task_type: TypeInPath,
    id: KeyInPath,  # noqa: A002 - the word of the address
    n: Fires = 5,
) -> object:
    """When it fires next, in its own zone, with a note where a change of the clocks or jitter moves one."""
    info = await _found(service, task_type, id)
    store = await service.app.store()
    (task,) = await store.get([Identity(task_type, id)])
    if task is None or task.trigger is None:
        raise _unknown(task_type, id)
    trigger = decode_trigger(task.trigger)
    zone = trigger.timezone if isinstance(trigger, Cron) else info.timezone
    return msgspec.to_builtins(explain(trigger, zone, n, await store.now(), policy=task.series_policy, key=task.key))


async def _found(service: Service, task_type: str, schedule_id: str) -> ScheduleInfo:
    info = await service.app.schedules.get(schedule_id, task_type)
    if info is None:
        raise _unknown(task_type, schedule_id)
    return info


def _unknown(task_type: str, schedule_id: str) -> UnknownTask:
    return UnknownTask(f"There is no schedule {task_type}/{schedule_id}. GET /api/schedules lists those there are.")


def _offer(transition: Transition, words: str) -> None:
    """A route for one of the operator's events."""
    word = transition.value.replace("_", "-")

    async def act(
        service: Viewing,
        operator: Acting,
        task_type: TypeInPath,
        id: KeyInPath,  # noqa: A002 - the word of the address
    ) -> dict[str, object]:
        await _found(service, task_type, id)
        await operator.apply(transition, Identity(task_type, id))
        return (await _found(service, task_type, id)).to_dict()

    act.__doc__ = words
    acting.add_api_route(
        f"/schedules/{{task_type}}/{{id}}/{word}",
        act,
        methods=["POST"],
        operation_id=f"{transition.value}_schedule",
        response_model=ScheduleModel,
        summary=f"{word} schedule".capitalize(),
    )


_offer(Transition.PAUSE, "Hold it back. The fires that pass meanwhile are skipped.")
_offer(Transition.RESUME, "Go on with the first fire that lies ahead.")
_offer(Transition.CANCEL, "End it. A PUT under its id starts it anew.")
_offer(Transition.RUN_NOW, "Run it once, now; its series is not shifted.")
