"""Queues, instances, the overview: how everything stands now."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Query

from rota.access import Role
from rota.api.auth import Viewing
from rota.api.models import AnswerModel, Moment, an_example
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
    """So many may start in a second; null: as many as there is room for."""
    start_limit: dict[str, float] | None
    """The same, by what they cost."""


class QueueModel(AnswerModel):
    """The queue of one type."""

    model_config = an_example(depth=12, oldest_due_at="2026-11-19T08:30:00Z", handlers=2)

    task_type: str
    depth: int
    """How many wait."""
    running: int
    oldest_due_at: Moment | None
    """When the first of them is or was due; null if none waits."""
    late_ms: int
    """For how long the first one has been due; 0 if none is."""
    state: Literal["on", "off", "frozen", "draining"]
    """Whether tasks are taken on and started."""
    limits: LimitsModel
    """What bounds it."""
    handlers: int
    """How many instances can run it."""


class QueuesModel(AnswerModel):
    """Every queue."""

    items: list[QueueModel]


class InstanceModel(AnswerModel):
    """One process at work on the store."""

    model_config = an_example(is_alive=True, types=["memory_compression", "report"])

    instance: str
    host: str
    pid: int
    started_at: Moment
    seen_at: Moment
    is_alive: bool
    """Whether it was heard of within its lease and five seconds."""
    running: int
    types: list[str]
    """The types that it has a handler for."""
    lease_ms: int


class InstancesModel(AnswerModel):
    """Every instance that has ticked and not said goodbye."""

    items: list[InstanceModel]


class MinuteModel(AnswerModel):
    """What ran in one minute."""

    model_config = an_example(success=2)

    start_at: Moment
    """When the minute began."""
    success: int
    """How many runs succeeded."""
    failed: int
    """How many runs failed."""
    set_aside: int
    """How many were cancelled or discarded."""
    late_p50_ms: int | None
    late_p99_ms: int | None


class TypeViewModel(AnswerModel):
    """One type: how it stands, and how it did."""

    model_config = an_example(state="on", next_due_at="2026-11-19T08:30:00Z", took_average_ms=1310)

    task_type: str
    description: str
    trigger_mode: str
    state: str
    """`on`, `off`, `frozen` (nothing starts) or `draining` (nothing is taken on)."""
    pending: int
    running: int
    paused: int
    failed: int
    """Dead letters: tasks that ended failed, and wait for somebody to look."""
    max_pending: int
    next_due_at: Moment | None
    """When the first that waits is or was due."""
    oldest_pending_ms: int
    """For how long that one has been overdue, in milliseconds; 0 if nothing is."""
    runs: int
    failures: int
    failure_rate: float
    late_p50_ms: int | None
    late_p99_ms: int | None
    took_average_ms: int | None
    """How long a run took on average, in milliseconds; null without runs."""


class InstanceViewModel(AnswerModel):
    """One instance at work."""

    model_config = an_example(types=["memory_compression", "report"], silent_ms=800)

    instance: str
    host: str
    pid: int
    types: list[str]
    """The types that it has a handler for."""
    running: int
    started_at: Moment
    seen_at: Moment
    silent_ms: int
    """How long ago it gave its last sign of life, in milliseconds."""
    is_silent: bool
    """Whether that is so long ago that it must be presumed dead."""


class OverviewModel(AnswerModel):
    """Everything at one moment, with the last minutes."""

    model_config = an_example(
        minutes=60, runs_per_second=0.03, counts={"pending": 12, "running": 2}, reasons={"error": 3}
    )

    now: Moment
    """The moment that this is about."""
    minutes: int
    """How many minutes were looked at."""
    runs: int
    failures: int
    runs_per_second: float
    """How many runs ended in a second, on average."""
    late_p50_ms: int | None
    late_p99_ms: int | None
    counts: dict[str, int]
    """How many tasks are in each state, over all types."""
    reasons: dict[str, int]
    """Why runs were no success, and how many, the most frequent first."""
    per_minute: list[MinuteModel]
    """Minute by minute, the oldest first; the last one is still going on."""
    types: list[TypeViewModel]
    """Type by type."""
    instances: list[InstanceViewModel]
    """Every process at work."""


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
