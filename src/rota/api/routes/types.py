"""Task types: what is configured, and the operator's switches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter
from pydantic import Field

from rota.access import Role
from rota.api.auth import Acting, Viewing
from rota.api.models import AnswerModel, Json, RequestModel, an_example
from rota.api.paths import TypeInPath
from rota.api.routing import routes_for
from rota.api.service import Service
from rota.app.declarations import declaration_of
from rota.app.views import alive, settings_of, trigger_words
from rota.clock import Instant
from rota.core.declaration import Field as TakenField
from rota.core.declaration import FieldKind, Takes
from rota.core.task_type import RateLimit, did_you_mean
from rota.errors import UnknownTaskType
from rota.masking import masker
from rota.stores.base import Counts, Instance, TypeRecord

__all__ = ["acting", "router"]

router: Final[APIRouter] = routes_for(Role.VIEWER, tag="types")
acting: Final[APIRouter] = routes_for(Role.OPERATOR, tag="types")


class RateLimitModel(RequestModel):
    """`rate` starts a second over all instances, at most `burst` at once; of `rate_limit`, by what they cost."""

    model_config = an_example(rate=2.5, burst=10)

    rate: Annotated[float, Field(gt=0, le=1_000_000, strict=False)]
    """How many a second, on average."""
    burst: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """How many at once, after a pause."""


class SwitchesRequest(RequestModel):
    """An operator's overrides. What is not named stays; null takes one back."""

    model_config = an_example(frozen=True, concurrency=3)

    enabled: bool | None = None
    """False: nothing is taken on, and nothing starts."""
    frozen: bool | None = None
    """True: nothing starts; what comes is taken on."""
    draining: bool | None = None
    """True: nothing is taken on; what is there is worked off."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = None
    max_pending: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    rate_limit: RateLimitModel | None = None
    """How many may start in a second."""
    start_limit: RateLimitModel | None = None
    """The same, by what they cost."""


class CountsModel(AnswerModel):
    """How many tasks are in each state, and running totals."""

    model_config = an_example(
        completed=117, created_total=132, coalesced_total=410, succeeded_total=117, errored_total=3
    )

    pending: int
    running: int
    paused: int
    completed: int
    """How many have ended well."""
    failed: int
    """Dead letters: how many have ended failed."""
    cancelled: int
    """How many were ended by somebody."""
    created_total: int
    """How many were ever made."""
    coalesced_total: int
    """How many activities ever joined a task that was there."""
    succeeded_total: int
    """How many runs ever succeeded."""
    errored_total: int
    """How many runs ever failed."""
    lost_total: int
    """How many runs ever ended with their process."""


class TypeModel(AnswerModel):
    """A task type: what is configured, what an operator has overridden, what counts, and who runs it."""

    model_config = an_example(
        name="memory_compression",
        trigger="30m after activity",
        enabled=True,
        accepts=True,
        runs=True,
        config={"concurrency": 4},
        overrides={"concurrency": 3},
        effective={"concurrency": 3},
        instances=["app-1:4711:9c2f"],
    )

    name: str
    """The task type."""
    description: str
    trigger_mode: str
    trigger: str
    """What makes a task of it due, in words."""
    enabled: bool
    """Whether it is on."""
    accepts: bool
    """Whether new tasks are taken on."""
    runs: bool
    """Whether tasks are started."""
    config: dict[str, Json]
    """What is configured, setting by setting."""
    overrides: dict[str, Json]
    """What an operator has set instead, until they take it back."""
    effective: dict[str, Json]
    """What counts: the configuration with the overrides."""
    counts: CountsModel
    """How many tasks there are, and were."""
    instances: list[str]
    """The instances that have a handler for it."""


class FieldModel(AnswerModel):
    """One value that a handler takes."""

    model_config = an_example(name="days", kind="whole", default=7, says="int")

    name: str
    """What the handler calls it."""
    kind: FieldKind
    """What it takes."""
    required: bool
    """Whether it must be given."""
    default: Json
    """What it is if nothing is given; null where there is no default."""
    choices: list[str | int | bool]
    """The only values that it takes; empty: any of its kind."""
    says: str
    """The annotation, as the program has it."""


class TakesModel(AnswerModel):
    """What a handler takes: whose task it is, and the payload."""

    model_config = an_example(ids=["user_id"])

    ids: list[str]
    """Of user_id, device_id and agent_id those that it asks for."""
    payload: FieldModel | None
    """null: it takes none."""
    fields: list[FieldModel] | None
    """What the payload consists of, where its annotation tells."""


class TypeWithTakesModel(TypeModel):
    """A type, and what its handler takes as far as somebody has told."""

    takes: TakesModel | None
    """What its handler takes; null where nobody has told."""
    sources: dict[str, str]
    """Where each setting comes from that is no default, as the last instance has told."""


class TypesModel(AnswerModel):
    """Every type that the store knows."""

    items: list[TypeModel]


@router.get("/types", operation_id="list_types", response_model=TypesModel)
async def list_types(service: Viewing) -> dict[str, Any]:
    """Every type that the store knows, with its switches, counts and the instances that run it."""
    return {"items": await _shapes(service)}


@router.get("/types/{task_type}", operation_id="get_type", response_model=TypeWithTakesModel)
async def get_type(service: Viewing, task_type: TypeInPath) -> dict[str, object]:
    """One type, with what its handler takes."""
    shape = await _shape(service, task_type)
    told = await declaration_of(await service.app.store(), task_type)
    return {**shape, "takes": None if told.takes is None else _takes_shape(told.takes), "sources": dict(told.sources)}


def _takes_shape(takes: Takes) -> dict[str, object]:
    fields = None if takes.fields is None else [_field_shape(field) for field in takes.fields]
    return {
        "ids": list(takes.ids),
        "payload": None if takes.payload is None else _field_shape(takes.payload),
        "fields": fields,
    }


def _field_shape(field: TakenField) -> dict[str, object]:
    default: object = None if field.default is None else masker().value(json.loads(field.default), field.name)
    return {**msgspec.structs.asdict(field), "choices": list(field.choices), "default": default}


@acting.patch("/types/{task_type}", operation_id="change_type", response_model=TypeModel)
async def change_type(
    service: Viewing,
    operator: Acting,
    task_type: TypeInPath,
    request: SwitchesRequest,
) -> dict[str, object]:
    """Switch a type on or off, freeze or drain it, set its limits: for all instances, and over restarts."""
    changes: dict[str, object] = {name: getattr(request, name) for name in request.model_fields_set}
    for name, limit in (("rate_limit", request.rate_limit), ("start_limit", request.start_limit)):
        if limit is not None:
            changes[name] = RateLimit(rate=limit.rate, burst=limit.burst)
    await operator.override(task_type, changes)
    return await _shape(service, task_type)


async def _shapes(service: Service) -> list[dict[str, object]]:
    app, store = service.app, await service.app.store()
    records, counts, instances, now = await asyncio.gather(app.types(), app.counts(), app.instances(), store.now())
    return [type_shape(record, counts.get(record.task_type.name, Counts()), instances, now) for record in records]


async def _shape(service: Service, name: str) -> dict[str, object]:
    shapes = {str(shape["name"]): shape for shape in await _shapes(service)}
    if name not in shapes:
        hint = did_you_mean(name, shapes) if shapes else "None is registered yet."
        raise UnknownTaskType(f"There is no task type {name!r}. {hint}")
    return shapes[name]


def type_shape(record: TypeRecord, counts: Counts, instances: Iterable[Instance], now: Instant) -> dict[str, object]:
    """A type as `TypeModel` describes it."""
    name = record.task_type.name
    return {
        "name": name,
        "description": record.task_type.description,
        "trigger_mode": record.task_type.trigger_mode.value,
        "trigger": trigger_words(record.task_type),
        "enabled": record.enabled,
        "accepts": record.accepts,
        "runs": record.runs,
        "config": settings_of(record.task_type),
        "overrides": msgspec.to_builtins(record.overrides),
        "effective": settings_of(record.effective),
        "counts": msgspec.structs.asdict(counts),
        "instances": [each.beat.instance for each in alive(instances, now, name)],
    }
