"""`POST /api/touch`: a user was active.

This is the hot path of applications, not an operator's action: it leaves no entry in the audit log, and it works while
the store is away (the touch waits on this host's disk) and while the database with the tokens is.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter
from pydantic import Field

from rota.access import Role
from rota.api.auth import Viewing
from rota.api.models import AnswerModel, Moment, RequestModel, Text, TypeName, an_example
from rota.api.routing import routes_for
from rota.clock import isoformat
from rota.core.outcome import TouchOutcome
from rota.errors import InvalidInput, UnknownTaskType

__all__ = ["router"]

router: Final[APIRouter] = routes_for(Role.OPERATOR, tag="activity", through_outages=True)


class TouchRequest(RequestModel):
    """A user was active. `task_type` or `task_types` says which upkeep that concerns."""

    model_config = an_example(user_id="u1", device_id="phone", task_type="memory_compression")

    user_id: Text
    device_id: Text | None = None
    agent_id: Text | None = None
    task_type: TypeName | None = None
    task_types: Annotated[list[TypeName], Field(min_length=1, max_length=50)] | None = None
    """Several task types at once."""


class TouchModel(AnswerModel):
    """What an activity led to."""

    model_config = an_example(outcome="created", coalesced=0)

    outcome: TouchOutcome
    """Whether a task was made, an earlier one stands for it too, or nothing had to be done."""
    scheduled_at: Moment | None
    coalesced: int


class TouchAnswer(AnswerModel):
    """What an activity led to, per type."""

    task_types: dict[str, TouchModel]
    """What it led to, by task type."""


@router.post("/touch", operation_id="touch", response_model=TouchAnswer)
async def touch(service: Viewing, request: TouchRequest) -> dict[str, object]:
    """A user was active: what that led to, for each of the types."""
    if (request.task_type is None) == (request.task_types is None):
        raise InvalidInput("Say which types the activity concerns: `task_type`, or `task_types`; one of the two.")
    app, names = service.app, list(dict.fromkeys(request.task_types or [str(request.task_type)]))
    # All or nothing: a misspelt type is found before the others are touched. One alone is found by touching it.
    for name in names if len(names) > 1 else ():
        if await app.get_task_config(name) is None:
            raise UnknownTaskType(f"There is no task type {name!r}. GET /api/types lists those there are.")
    ids = (request.user_id, request.device_id, request.agent_id)
    touched = {name: await app.host.touch(name, *ids) for name in names}
    return {
        "task_types": {
            name: {"outcome": each.outcome, "scheduled_at": isoformat(each.scheduled_at), "coalesced": each.coalesced}
            for name, each in touched.items()
        }
    }
