"""`POST /api/touch`: a user was active.

This is the hot path of applications, not an operator's action: it leaves no entry in the audit log, and it works while
the store is away (the touch waits on this host's disk) and while the database with the tokens is.
"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from rota.access import Role
from rota.api.auth import Viewing
from rota.api.models import TouchAnswer, TouchRequest
from rota.api.routing import routes_for
from rota.errors import InvalidInput, UnknownTaskType

__all__ = ["router"]

router: Final[APIRouter] = routes_for(Role.OPERATOR, tag="activity", through_outages=True)


@router.post("/touch", operation_id="touch", response_model=TouchAnswer)
async def touch(service: Viewing, request: TouchRequest) -> dict[str, object]:
    """A user was active: what that led to, for each of the types."""
    if (request.type is None) == (request.types is None):
        raise InvalidInput("Say which types the activity concerns: `type`, or `types`; one of the two.")
    app, names = service.app, list(dict.fromkeys(request.types or [str(request.type)]))
    # All or nothing: a misspelt type is found before the others are touched. One alone is found by touching it.
    for name in names if len(names) > 1 else ():
        if await app.get_task_config(name) is None:
            raise UnknownTaskType(f"There is no task type {name!r}. GET /api/types lists those there are.")
    ids = (request.user_id, request.device_id, request.agent_id)
    return {"types": {name: (await app.touch(name, *ids)).to_dict() for name in names}}
