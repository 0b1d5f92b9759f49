"""Dead letters: tasks that ended failed and wait for somebody to look."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter
from pydantic import Field

from rota.access import Role
from rota.api.auth import Acting, Viewing
from rota.api.filters import (
    FailureFilter,
    IdFilter,
    SearchFilter,
    SinceFilter,
    TaskSortChoice,
    TypeFilter,
    UntilFilter,
)
from rota.api.models import SortedPageModel, Text, TypeName, an_example
from rota.api.naming import identities_of
from rota.api.paging import Cursor, Limit, sorted_page_shape
from rota.api.routes.task_models import BulkAnswer, Confirmed, IdentityModel, TaskModel
from rota.api.routes.tasks import carry_out
from rota.api.routing import routes_for
from rota.api.service import Service
from rota.app.operator import Operator
from rota.app.results import TaskDetails
from rota.app.time_range import time_range_in
from rota.app.views import task_query
from rota.core.task import Identity, TaskStatus, Transition
from rota.errors import InvalidInput
from rota.stores.base import TaskQuery, TaskSort

__all__ = ["acting", "router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="dead letters")
acting: Final[APIRouter] = routes_for(Role.OPERATOR, tag="dead letters")


class DeadLettersRequest(Confirmed):
    """Which dead letters: those that are named, or all that match (`all: true` for every one)."""

    model_config = an_example(task_type="report", dry_run=True)

    identities: Annotated[list[IdentityModel], Field(min_length=1, max_length=1_000)] | None = None
    """Just these."""
    task_type: TypeName | None = None
    user: Text | None = None
    search: Text | None = None
    failure: Text | None = None
    all: bool = False


@router.get("/dead-letters", operation_id="list_dead_letters", response_model=SortedPageModel[TaskModel])
async def list_dead_letters(
    service: Viewing,
    task_type: TypeFilter = None,
    user: IdFilter = None,
    search: SearchFilter = None,
    failure: FailureFilter = None,
    since: SinceFilter = None,
    until: UntilFilter = None,
    sort: TaskSortChoice = TaskSort.KEY,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """A page of dead letters by type and key, or sorted otherwise; `since` and `until` bound when they failed."""
    store = await service.app.store()
    query = task_query(
        type=task_type,
        status=TaskStatus.FAILED,
        user=user,
        search=search,
        failure=failure,
        within=await time_range_in(store, service.app.config.timezone, since, until),
        sort=sort,
        cursor=cursor,
        limit=limit,
    )
    return sorted_page_shape(await store.find(query), lambda task: TaskDetails.of(task).to_dict())


@acting.post("/dead-letters/redrive", operation_id="redrive_dead_letters", response_model=BulkAnswer)
async def redrive_dead_letters(service: Viewing, operator: Acting, request: DeadLettersRequest) -> dict[str, object]:
    """Give dead letters another chance, with fresh counts."""
    return await _carry_out(service, operator, Transition.REDRIVE, request)


@acting.post("/dead-letters/purge", operation_id="purge_dead_letters", response_model=BulkAnswer)
async def purge_dead_letters(service: Viewing, operator: Acting, request: DeadLettersRequest) -> dict[str, object]:
    """Remove dead letters now, before their retention ends."""
    return await _carry_out(service, operator, Transition.PURGE, request)


async def _carry_out(
    service: Service, operator: Operator, transition: Transition, request: DeadLettersRequest
) -> dict[str, object]:
    meant = await _meant(service, request)
    return await carry_out(operator, transition, meant, dry_run=request.dry_run, expected=request.expected)


async def _meant(service: Service, request: DeadLettersRequest) -> TaskQuery | list[Identity]:
    is_narrowed = any((request.task_type, request.user, request.search, request.failure))
    given = sum((request.identities is not None, is_narrowed, request.all))
    if given != 1:
        raise InvalidInput(
            "Say which dead letters: `identities`, a filter (`task_type`, `user`, `search`, `failure`)"
            " or `all: true`; one of them."
        )
    store = await service.app.store()
    if request.identities is None:
        return task_query(
            type=request.task_type,
            status=TaskStatus.FAILED,
            user=request.user,
            search=request.search,
            failure=request.failure,
        )
    # Only what is dead: purging by this address must not remove a task that has just completed.
    tasks = await store.get(await identities_of(store, [(each.task_type, each.key) for each in request.identities]))
    return [task.identity for task in tasks if task is not None and task.status is TaskStatus.FAILED]
