"""Where the time of a task went."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from rota.access import Role
from rota.api.auth import Viewing
from rota.api.naming import identity_of
from rota.api.paths import KeyInPath, TypeInPath
from rota.api.routes.waterfall_models import WaterfallModel
from rota.api.routing import routes_for
from rota.app.course import course_of_task
from rota.errors import UnknownTask
from rota.keys import shown_key

__all__ = ["router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="tasks")


@router.get("/tasks/{task_type}/{key}/waterfall", operation_id="get_waterfall_of_task", response_model=WaterfallModel)
async def get_waterfall_of_task(
    service: Viewing,
    task_type: TypeInPath,
    key: KeyInPath,
) -> dict[str, object]:
    """The attempts at what the task does now or did last: when each was due, claimed, at work and over, with steps."""
    store = await service.app.store()
    identity = await identity_of(store, task_type, key)
    (task,) = await store.get([identity])
    if task is None:
        raise UnknownTask(
            f"There is no task {task_type}/{shown_key(identity.key)}. GET /api/tasks?task_type={task_type} lists some."
        )
    return (await course_of_task(store, task, await store.now())).waterfall.to_dict()
