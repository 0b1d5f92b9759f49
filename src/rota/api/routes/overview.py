"""Queues, instances, the overview: how everything stands now."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Query

from rota.access import Role
from rota.api.auth import Viewing
from rota.api.models import AnswerModel, Moment
from rota.api.routing import routes_for
from rota.app.overview import overview
from rota.app.views import alive, is_alive, state_of
from rota.clock import Instant, isoformat
from rota.stores.base import Counts, Instance, TypeRecord

__all__ = ["router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="looking")


class LimitsModel(AnswerModel):
    """What bounds a queue."""

    max_pending: int
    concurrency: int | None
    rate_limit: dict[str, float] | None
    start_limit: dict[str, float] | None


class QueueModel(AnswerModel):
    """The queue of one type."""

    task_type: str
    depth: int
    running: int
    oldest_due_at: Moment | None
    late_ms: int
    """For how long the first one has been due; 0 if none is."""
    state: Literal["on", "off", "frozen", "draining"]
    limits: LimitsModel
    handlers: int
    """How many instances can run it."""


class QueuesModel(AnswerModel):
    """Every queue."""

    items: list[QueueModel]


class InstanceModel(AnswerModel):
    """One process at work on the store."""

    instance: str
    host: str
    pid: int
    started_at: Moment
    seen_at: Moment
    is_alive: bool
    running: int
    types: list[str]
    lease_ms: int


class InstancesModel(AnswerModel):
    """Every instance that has ticked and not said goodbye."""

    items: list[InstanceModel]


class MinuteModel(AnswerModel):
    """What ran in one minute."""

    start_at: Moment
    success: int
    failed: int
    set_aside: int
    late_p50_ms: int | None
    late_p99_ms: int | None


class TypeViewModel(AnswerModel):
    """One type: how it stands, and how it did."""

    task_type: str
    description: str
    trigger_mode: str
    state: str
    pending: int
    running: int
    paused: int
    failed: int
    max_pending: int
    next_due_at: Moment | None
    oldest_pending_ms: int
    runs: int
    failures: int
    failure_rate: float
    late_p50_ms: int | None
    late_p99_ms: int | None
    took_average_ms: int | None


class InstanceViewModel(AnswerModel):
    """One instance at work."""

    instance: str
    host: str
    pid: int
    types: list[str]
    running: int
    started_at: Moment
    seen_at: Moment
    silent_ms: int
    is_silent: bool


class OverviewModel(AnswerModel):
    """Everything at one moment, with the last minutes."""

    now: Moment
    minutes: int
    runs: int
    failures: int
    runs_per_second: float
    late_p50_ms: int | None
    late_p99_ms: int | None
    counts: dict[str, int]
    reasons: dict[str, int]
    per_minute: list[MinuteModel]
    types: list[TypeViewModel]
    instances: list[InstanceViewModel]


@router.get("/queues", operation_id="list_queues", response_model=QueuesModel)
async def list_queues(service: Viewing) -> dict[str, Any]:
    """The queue of every type: depth, what is due first, state, limits, and how many instances can run it."""
    store = await service.app.store()
    records, counts, heads, instances, now = await asyncio.gather(
        store.list_types(), store.counts(), store.next_due_by_type(), store.instances(), store.now()
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


def queue_shape(record: TypeRecord, counts: Counts, due_at: Instant | None, handlers: int, now: Instant) -> object:
    """A queue as `QueueModel` describes it."""
    effective = record.effective
    return {
        "task_type": record.task_type.name,
        "depth": counts.pending,
        "running": counts.running,
        "oldest_due_at": isoformat(due_at),
        "late_ms": 0 if due_at is None else max(0, now - due_at),
        "state": state_of(record).value,
        "limits": {
            "max_pending": effective.max_pending,
            "concurrency": effective.concurrency,
            "rate_limit": None if effective.rate_limit is None else msgspec.structs.asdict(effective.rate_limit),
            "start_limit": None if effective.start_limit is None else msgspec.structs.asdict(effective.start_limit),
        },
        "handlers": handlers,
    }


def instance_shape(instance: Instance, now: Instant) -> dict[str, object]:
    """An instance as `InstanceModel` describes it."""
    beat = instance.beat
    return {
        "instance": beat.instance,
        "host": beat.host,
        "pid": beat.pid,
        "started_at": isoformat(beat.started_at),
        "seen_at": isoformat(instance.seen_at),
        "is_alive": is_alive(instance, now),
        "running": beat.running,
        "types": sorted(beat.types),
        "lease_ms": beat.lease_ms,
    }
