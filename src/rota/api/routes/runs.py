"""The run log."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path

from rota.access import Role
from rota.api.auth import Viewing
from rota.api.filters import FailureFilter, IdFilter, KeyFilter, RunSortChoice, SinceFilter, TypeFilter, UntilFilter
from rota.api.models import SortedPageModel
from rota.api.naming import identity_of
from rota.api.paging import Cursor, Limit, sorted_page_shape
from rota.api.routes.task_models import RunModel, RunWithDetailsModel
from rota.api.routing import routes_for
from rota.app.course import course_of_run
from rota.app.results import RunInfo, details_to_dict
from rota.core.task import RunStatus
from rota.errors import InvalidInput, UnknownRun
from rota.stores.base import RunQuery, RunSort

__all__ = ["router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="runs")

RunInPath = Annotated[
    str,
    # On Redis an id names the type as well.
    Path(pattern="^[0-9]{1,18}(-[0-9]{1,18}-[a-z][a-z0-9_]{0,63})?$", max_length=102, description="The run's id."),
]


@router.get("/runs", operation_id="list_runs", response_model=SortedPageModel[RunModel])
async def list_runs(
    service: Viewing,
    task_type: TypeFilter = None,
    key: KeyFilter = None,
    status: RunStatus | None = None,
    user: IdFilter = None,
    failure: FailureFilter = None,
    since: SinceFilter = None,
    until: UntilFilter = None,
    sort: RunSortChoice = RunSort.NEWEST,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """A page of the run log, newest first unless it is sorted; `since` and `until` bound when runs ended."""
    if key is not None:
        if task_type is None:
            raise InvalidInput("A key was given without a type. Add `task_type`: keys are counted per type.")
        key = (await identity_of(await service.app.store(), task_type, key)).key
    page = await service.app.runs(
        task_type,
        key=key,
        status=status,
        user_id=user,
        failure=failure,
        since=since,
        until=until,
        sort=sort,
        cursor=cursor,
        limit=limit,
    )
    return sorted_page_shape(page, lambda run: run.to_dict())


@router.get("/runs/{run_id}", operation_id="get_run", response_model=RunWithDetailsModel)
async def get_run(service: Viewing, run_id: RunInPath) -> dict[str, object]:
    """One run, with what it has left (its traceback, lines, progress and steps), and where the time went."""
    store = await service.app.store()
    page = await store.runs(RunQuery(run_id=run_id, limit=1))
    if not page.items:
        raise UnknownRun(f"There is no run {run_id}, or its record is gone. GET /api/runs lists those there are.")
    run = page.items[0]
    course = await course_of_run(store, run, await store.now())
    details = course.details.get(run.token)
    return {
        **RunInfo.of(run).to_dict(),
        "details": None if details is None else details_to_dict(details),
        "waterfall": course.waterfall.to_dict(),
    }
