"""Tasks: list, look, make, and change what becomes of them, one by one or many at once."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Response
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
from rota.api.models import (
    AnswerModel,
    Duration,
    Json,
    Moment,
    PageModel,
    Positive,
    Priority,
    RequestModel,
    SortedPageModel,
    Text,
    TypeName,
    When,
    an_example,
)
from rota.api.naming import identities_of, identity_of
from rota.api.paging import Cursor, Limit, page_shape, sorted_page_shape
from rota.api.paths import KeyInPath, TypeInPath
from rota.api.problems import Refused
from rota.api.routes.task_models import BulkAnswer, Confirmed, IdentityModel, RunModel, TaskModel
from rota.api.routing import routes_for
from rota.app.again import SAME
from rota.app.operator import Done, Operator
from rota.app.results import TaskDetails
from rota.app.rota import Rota
from rota.app.time_range import time_range_in
from rota.app.views import task_query
from rota.core.outcome import ScheduleOutcome
from rota.core.task import Identity, TaskStatus, Transition
from rota.errors import InvalidInput, UnknownTask
from rota.keys import shown_key
from rota.stores.base import Store, TaskQuery, TaskSort

__all__ = ["acting", "carry_out", "router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="tasks")
acting: Final[APIRouter] = routes_for(Role.OPERATOR, tag="tasks")


class TaskRequest(RequestModel):
    """A task to be made. Without a key it gets a new one; a `user_id` without a key means the user's own task."""

    model_config = an_example(task_type="report", key="weekly", payload={"days": 7}, delay="30m")

    task_type: TypeName
    key: Text | None = None
    payload: Json = None
    at: When | None = None
    """When it is due. Without it and without `delay`: now."""
    delay: Duration | None = None
    """How long after now it is due."""
    priority: Priority | None = None
    serial: Text | None = None
    permits: Positive = 1
    """How many of the places of its type's `concurrency` it takes."""
    cost: Positive = 1
    """How many starts of its type's `rate_limit` it counts for."""
    user_id: Text | None = None
    device_id: Text | None = None
    agent_id: Text | None = None
    expires: When | None = None
    replace: bool = False
    """Put this in the place of a live task of the same key."""
    allow_past: bool = False
    """Take an `at` that has passed: it is due at once."""


class ReceiptModel(AnswerModel):
    """What asking for a task led to."""

    outcome: ScheduleOutcome
    """Whether it was made, or a live one was there: kept as it is, or updated."""
    task_type: str
    key: str
    scheduled_at: Moment


class WaitReasonModel(AnswerModel):
    """One thing that a task waits for."""

    model_config = an_example(code="not_due", text="It is due at 08:30 UTC.")

    code: str
    """A word that programs may switch on."""
    text: str
    """The same in a sentence."""


class WaitingModel(AnswerModel):
    """Why a task does not run yet."""

    model_config = an_example(state="pending", position=1, estimate_ms=1_500_000)

    task: TaskModel | None
    """The task; null if there is none."""
    state: str
    """How it stands, in a word."""
    reasons: list[WaitReasonModel]
    """Everything that it waits for."""
    position: int | None
    """How many of its type go before it, and one; null if it is in no line."""
    position_is_more: bool
    """True: it is further behind than was counted."""
    estimate_ms: int | None
    """How long it may still take to begin, in milliseconds; null if nobody can say."""
    due_at: Moment | None
    summary: str


class SelectionModel(RequestModel):
    """Which tasks. At least one of them narrows the choice."""

    task_type: TypeName | None = None
    status: TaskStatus | None = Field(default=None, strict=False)
    """Only those in this state."""
    without: TaskStatus | None = Field(default=None, strict=False)
    """None that is in this state."""
    user: Text | None = None
    owner: Text | None = None
    search: Text | None = None
    failure: Text | None = None
    schedules: bool = False
    """Only those with a trigger of their own."""
    since: Text | None = None
    """Only those whose time is this or later."""
    until: Text | None = None
    """Only those whose time is before this."""

    async def query(self, app: Rota) -> TaskQuery:
        """The tasks that are meant."""
        given = self.model_dump(exclude={"task_type", "since", "until"})
        within = await time_range_in(await app.store(), app.config.timezone, self.since, self.until)
        return task_query(type=self.task_type, within=within, **given)


class BulkRequest(Confirmed):
    """One event on many tasks: those that are named, or all that match."""

    model_config = an_example(event="pause", query={"task_type": "report", "status": "pending"}, dry_run=True)

    event: Literal["pause", "resume", "cancel", "run-now", "redrive", "purge"]
    """What to do to them."""
    query: SelectionModel | None = None
    """All that match."""
    identities: Annotated[list[IdentityModel], Field(min_length=1, max_length=1_000)] | None = None
    """Just these."""


@router.get("/tasks", operation_id="list_tasks", response_model=SortedPageModel[TaskModel])
async def list_tasks(
    service: Viewing,
    task_type: TypeFilter = None,
    status: TaskStatus | None = None,
    without: Annotated[TaskStatus | None, Query(description="Leave out tasks in this state.")] = None,
    user: IdFilter = None,
    owner: IdFilter = None,
    search: SearchFilter = None,
    failure: FailureFilter = None,
    schedules: Annotated[bool, Query(description="Only those with a trigger of their own.")] = False,
    since: SinceFilter = None,
    until: UntilFilter = None,
    sort: TaskSortChoice = TaskSort.KEY,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """A page of tasks by type and key, or sorted otherwise; `since` and `until` bound when they changed last."""
    store = await service.app.store()
    query = task_query(
        type=task_type,
        status=status,
        without=without,
        user=user,
        owner=owner,
        search=search,
        failure=failure,
        schedules=schedules,
        within=await time_range_in(store, service.app.config.timezone, since, until),
        sort=sort,
        cursor=cursor,
        limit=limit,
    )
    return sorted_page_shape(await store.find(query), lambda task: TaskDetails.of(task).to_dict())


@acting.post(
    "/tasks",
    operation_id="schedule_task",
    response_model=ReceiptModel,
    status_code=201,
    responses={
        200: {"model": ReceiptModel, "description": "A live task of this key was there: it is kept, or updated."}
    },
)
async def schedule_task(operator: Acting, request: TaskRequest, response: Response) -> dict[str, object]:
    """Make a task, now, `at` a time or after a `delay`. A live one of the same key is kept, unless `replace`."""
    options = request.model_dump(exclude={"task_type", "payload"}, exclude_unset=True)
    receipt = await operator.schedule(request.task_type, request.payload, **options)
    response.status_code = 201 if receipt.outcome is ScheduleOutcome.CREATED else 200
    return receipt.to_dict()


@acting.post("/tasks/bulk", operation_id="change_tasks", response_model=BulkAnswer)
async def change_tasks(service: Viewing, operator: Acting, request: BulkRequest) -> dict[str, object]:
    """One transition on many tasks. `dry_run` counts; `expected` makes sure that what was confirmed is what happens."""
    transition = Transition(request.event.replace("-", "_"))
    store = await service.app.store()
    if request.identities is not None:
        if request.query is not None:
            raise InvalidInput("Tasks were named and a query was given. Give one of them.")
        identities = await identities_of(store, [(each.task_type, each.key) for each in request.identities])
        return await carry_out(operator, transition, identities, dry_run=request.dry_run, expected=request.expected)
    query = await (request.query or SelectionModel()).query(service.app)
    return await carry_out(operator, transition, query, dry_run=request.dry_run, expected=request.expected)


async def carry_out(
    operator: Operator,
    transition: Transition,
    meant: TaskQuery | list[Identity],
    *,
    dry_run: bool,
    expected: int | None,
) -> dict[str, object]:
    """A bulk action on the tasks that are meant (a query, or identities), as `BulkAnswer` describes it."""
    found = await operator.confirm(transition, meant, expected)
    done = Done(0, 0) if dry_run or meant == [] else await operator.carry_out(transition, found)
    return {"matched": found.counted.count, "matched_is_all": found.counted.is_all, **done._asdict()}


@router.get("/tasks/{task_type}/{key}", operation_id="get_task", response_model=TaskModel)
async def get_task(
    service: Viewing,
    task_type: TypeInPath,
    key: KeyInPath,
) -> dict[str, object]:
    """One task as it stands."""
    store = await service.app.store()
    identity = await identity_of(store, task_type, key)
    (task,) = await store.get([identity])
    if task is None:
        raise UnknownTask(
            f"There is no task {task_type}/{shown_key(identity.key)}. GET /api/tasks?task_type={task_type} lists some."
        )
    return TaskDetails.of(task).to_dict()


@router.get("/tasks/{task_type}/{key}/explain", operation_id="explain_task", response_model=WaitingModel)
async def explain_task(
    service: Viewing,
    task_type: TypeInPath,
    key: KeyInPath,
) -> dict[str, object]:
    """Why the task does not run yet, its place in the queue, and an estimate."""
    identity = await identity_of(await service.app.store(), task_type, key)
    waiting = await service.app.tasks.explain(task_type, key=identity.key)
    return waiting.to_dict()


@router.get("/tasks/{task_type}/{key}/runs", operation_id="list_runs_of_task", response_model=PageModel[RunModel])
async def list_runs_of_task(
    service: Viewing,
    task_type: TypeInPath,
    key: KeyInPath,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """What the run log knows of this task, newest first."""
    identity = await identity_of(await service.app.store(), task_type, key)
    page = await service.app.runs(task_type, key=identity.key, cursor=cursor, limit=limit)
    return page_shape(page, lambda run: run.to_dict())


async def _apply(
    store: Store, operator: Operator, transition: Transition, task_type: str, key: str
) -> dict[str, object]:
    identity = await identity_of(store, task_type, key)
    details = await operator.apply(transition, identity)
    if details is None:
        raise Refused(404, "unknown_task", f"The task {task_type}/{shown_key(identity.key)} has just been removed.")
    return details.to_dict()


def _offer(transition: Transition, words: str) -> None:
    """A route for one of the operator's events; they differ by nothing but the word."""
    word = transition.value.replace("_", "-")

    async def act(
        service: Viewing,
        operator: Acting,
        task_type: TypeInPath,
        key: KeyInPath,
    ) -> dict[str, object]:
        return await _apply(await service.app.store(), operator, transition, task_type, key)

    act.__doc__ = words
    path = f"/tasks/{{task_type}}/{{key}}/{word}"
    acting.add_api_route(
        path,
        act,
        methods=["POST"],
        operation_id=f"{transition.value}_task",
        response_model=TaskModel,
        summary=f"{word} task",
    )


_offer(Transition.PAUSE, "Hold it back; a running one is held back after its run.")
_offer(Transition.RESUME, "Let it go on; a series goes on with the first fire that lies ahead.")
_offer(Transition.CANCEL, "End it; the handler of a running one is cancelled within about a second.")
_offer(Transition.RUN_NOW, "Make it due now. A series is not shifted by it.")
_offer(Transition.REDRIVE, "Give a failed task another chance, with fresh counts.")


class AgainRequest(RequestModel):
    """The task once more; without a payload with the one that it carried."""

    model_config = an_example(payload={"days": 14})

    payload: Json = None


@acting.post(
    "/tasks/{task_type}/{key}/again", operation_id="run_task_again", response_model=ReceiptModel, status_code=201
)
async def run_task_again(
    service: Viewing,
    operator: Acting,
    task_type: TypeInPath,
    key: KeyInPath,
    request: AgainRequest,
) -> dict[str, object]:
    """Make an ended task once more, due now, with the payload that it carried or with another one."""
    identity = await identity_of(await service.app.store(), task_type, key)
    payload = request.payload if "payload" in request.model_fields_set else SAME
    return (await operator.run_again(identity, payload)).to_dict()


@acting.post("/tasks/{task_type}/{key}/purge", operation_id="purge_task", status_code=204)
async def purge_task(
    service: Viewing,
    operator: Acting,
    task_type: TypeInPath,
    key: KeyInPath,
) -> None:
    """Remove a finished task now, before its retention ends."""
    await operator.apply(Transition.PURGE, await identity_of(await service.app.store(), task_type, key))


@acting.post("/tasks/{task_type}/{key}/reset", operation_id="reset_task", status_code=204)
async def reset_task(
    service: Viewing,
    operator: Acting,
    task_type: TypeInPath,
    key: KeyInPath,
) -> None:
    """Forget the failures in a row, so that activity is taken on again."""
    await operator.reset(await identity_of(await service.app.store(), task_type, key))
