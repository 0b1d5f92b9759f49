"""Queues, instances, the overview: how everything stands now."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query

from rota.access import Role
from rota.api.auth import Viewing
from rota.api.models import InstancesModel, OverviewModel, QueuesModel
from rota.api.routing import routes_for
from rota.api.shapes import instance_shape, queue_shape
from rota.app.overview import overview
from rota.app.views import alive
from rota.stores.base import Counts

__all__ = ["router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="looking")


@router.get("/queues", operation_id="list_queues", response_model=QueuesModel)
async def list_queues(service: Viewing) -> dict[str, Any]:
    """The queue of every type: depth, what is due first, state, limits, and how many instances can run it."""
    store = await service.app.store()
    records, counts, heads, instances, now = await asyncio.gather(
        store.list_types(), store.counts(), store.heads(), store.instances(), store.now()
    )
    shapes: list[object] = []
    for record in records:
        name = record.task_type.name
        handlers = len(alive(instances, now, name))
        shapes.append(queue_shape(record, counts.get(name, Counts()), heads.get(name), handlers, now))
    return {"items": shapes}


@router.get("/instances", operation_id="list_instances", response_model=InstancesModel)
async def list_instances(service: Viewing) -> dict[str, Any]:
    """Every process at work on the store."""
    store = await service.app.store()
    instances, now = await asyncio.gather(store.instances(), store.now())
    return {"items": [instance_shape(instance, now) for instance in instances]}


@router.get("/overview", operation_id="get_overview", response_model=OverviewModel)
async def get_overview(
    service: Viewing, minutes: Annotated[int, Query(ge=1, le=1_440, description="How far back.")] = 60
) -> dict[str, object]:
    """Throughput, lateness, failures and queues at one look, over all instances."""
    return (await overview(service.app, minutes)).to_dict()
