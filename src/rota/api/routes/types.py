"""Task types: what is configured, and the operator's switches."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter

from rota.access import Role
from rota.api.auth import Acting, Viewing
from rota.api.models import SwitchesRequest, TypeModel, TypesModel
from rota.api.paths import TypeInPath
from rota.api.routing import routes_for
from rota.api.service import Service
from rota.api.shapes import type_shape
from rota.core.task_type import RateLimit, did_you_mean
from rota.errors import UnknownTaskType
from rota.stores.base import Counts

__all__ = ["acting", "router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="types")
acting: Final[APIRouter] = routes_for(Role.OPERATOR, tag="types")


@router.get("/types", operation_id="list_types", response_model=TypesModel)
async def list_types(service: Viewing) -> dict[str, Any]:
    """Every type that the store knows, with its switches, counts and the instances that run it."""
    return {"items": await _shapes(service)}


@router.get("/types/{type}", operation_id="get_type", response_model=TypeModel)
async def get_type(service: Viewing, type: TypeInPath) -> dict[str, object]:  # noqa: A002 - the word of the address
    """One type."""
    return await _shape(service, type)


@acting.patch("/types/{type}", operation_id="change_type", response_model=TypeModel)
async def change_type(
    service: Viewing,
    operator: Acting,
    type: TypeInPath,  # noqa: A002 - the word of the address
    request: SwitchesRequest,
) -> dict[str, object]:
    """Switch a type on or off, freeze or drain it, set its limits: for all instances, and over restarts."""
    changes: dict[str, object] = {name: getattr(request, name) for name in request.model_fields_set}
    if request.rate_limit is not None:
        changes["rate_limit"] = RateLimit(rate=request.rate_limit.rate, burst=request.rate_limit.burst)
    await operator.override(type, changes)
    return await _shape(service, type)


async def _shapes(service: Service) -> list[dict[str, object]]:
    store = await service.app.store()
    records, counts, instances, now = await asyncio.gather(
        store.list_types(), store.counts(), store.instances(), store.now()
    )
    return [type_shape(record, counts.get(record.task_type.name, Counts()), instances, now) for record in records]


async def _shape(service: Service, name: str) -> dict[str, object]:
    shapes = {str(shape["name"]): shape for shape in await _shapes(service)}
    if name not in shapes:
        hint = did_you_mean(name, shapes) if shapes else "None is registered yet."
        raise UnknownTaskType(f"There is no task type {name!r}. {hint}")
    return shapes[name]
