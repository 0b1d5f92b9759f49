"""Events over HTTP: what was published and what became of it, dead letters, the outbox, consumers, flows that wait."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Path, Query
from pydantic import AfterValidator, Field

from rota.access import Role
from rota.api.auth import Calling, Viewing
from rota.api.filters import IdFilter
from rota.api.models import NO_NUL, AnswerModel, Duration, Json, Moment, PageModel, RequestModel, Text, When, an_example
from rota.api.paging import Cursor, Limit, page_shape
from rota.api.paths import key_of
from rota.api.routing import routes_for
from rota.clock import Instant, parse_duration
from rota.errors import InvalidInput
from rota.events.envelope import Event
from rota.events.handle import HandleStatus
from rota.events.handles import Handles
from rota.events.operator import MAX_PUBLISHED, EventOperator
from rota.events.part import EventsPart
from rota.events.reading import DeadQuery, EventFilter, EventReading, views_of
from rota.events.shapes import handle_dict, instant_of

__all__ = ["acting", "reading"]

reading: Final[APIRouter] = routes_for(Role.VIEWER, tag="events")
acting: Final[APIRouter] = routes_for(Role.OPERATOR, tag="events")

TopicFilter = Annotated[
    str | None,
    Query(pattern="^[A-Za-z0-9._-]{1,200}$", description="Only those of this topic.", examples=["shop.order"]),
]
TypeFilter = Annotated[
    str | None,
    Query(min_length=1, max_length=255, pattern=NO_NUL, description="Only those that say this has happened."),
]
AggregateFilter = Annotated[
    str | None, Query(min_length=1, max_length=255, pattern=NO_NUL, description="Only those about this thing.")
]
ConsumerFilter = Annotated[
    str | None, Query(min_length=1, max_length=255, pattern=NO_NUL, description="Only those of this consumer.")
]
IdInPath = Annotated[
    str,
    Path(
        description="The id, percent-encoded.",
        min_length=1,
        max_length=255,
        json_schema_extra={"pattern": r"^[^\x00]*$"},
    ),
    AfterValidator(key_of),
]
Ids = Annotated[list[Text], Field(min_length=1, max_length=1_000)]


async def operator_of(service: Viewing, principal: Calling) -> EventOperator:
    """Acts in the name of whoever was let in."""
    return EventOperator(service.app.host.part(EventsPart), principal, service.app.database)


At = Annotated[EventOperator, Depends(operator_of)]


# --- what comes and goes ---------------------------------------------------------------------------------------------


class EventModel(AnswerModel):
    """An event in the outbox."""

    model_config = an_example(
        event_id="0199c5e0-7d1b-7c1a-be35-9b5ca80650f6",
        seq=77,
        topic="rota.shop.order",
        key="o1",
        event_type="Shop.Order.Created",
        event_version=1,
        aggregate_type="Order",
        aggregate_id="o1",
        status="sent",
        payload={"total": 12},
    )

    event_id: str
    """Its id: whoever sees it twice knows it by that."""
    seq: int
    """Its place in the outbox; later ones have more."""
    topic: str
    """The topic that it is published to."""
    key: str
    """Events of one key stay in order."""
    partition: int
    """The part of the topic that its key belongs to."""
    event_type: str
    """What has happened, as `Domain.Thing.Happened`."""
    event_version: int
    """Which shape its payload has."""
    aggregate_type: str
    """What kind of thing it is about."""
    aggregate_id: str
    """The thing that it is about."""
    correlation_id: str | None
    causation_id: str | None
    """The event that led to it."""
    user_id: str | None
    occurred_at: Moment
    """When it happened."""
    status: Literal["new", "sent", "dead"]
    """Whether it waits for the bus, is on it, or was refused by it."""
    attempts: int
    error: str | None
    """What the bus said against it; null if nothing."""
    sent_at: Moment | None
    """When the bus took or refused it; null: it waits."""
    headers: dict[str, str]
    """What goes along with it, as text."""
    payload: Json


class HandledModel(AnswerModel):
    """What a consumer has made of an event. A dead letter has the message, as the bus had brought it."""

    model_config = an_example(
        consumer="billing",
        event_id="0199c5e0-7d1b-7c1a-be35-9b5ca80650f6",
        topic="rota.shop.order",
        key="o1",
        status="done",
    )

    consumer: str
    """The name of the consumer."""
    event_id: str
    """The event that came."""
    topic: str
    """Where it came from."""
    key: str
    """Events of one key are handled in order."""
    status: Literal["started", "done", "retrying", "dead"]
    """What has become of it."""
    attempts: int
    crashes: int
    next_at: Moment | None
    """When it is tried again; null: it is not."""
    error_class: str | None
    error: str | None
    user_id: str | None
    at: Moment
    """When that was so."""
    seq: int | None = None
    """Its number among the dead letters."""
    event_type: str | None = None
    """What has happened, where the message says so."""
    message: Json = None
    """The message as the bus had brought it."""


class EventDetailsModel(AnswerModel):
    """An event, and what each consumer has made of it. `event` is null if it was published elsewhere, or is pruned."""

    event: EventModel | None
    """The event."""
    consumers: list[HandledModel]
    """What each consumer has made of it."""


class NewEvent(RequestModel):
    """An event to be published. What is left out is filled in; an `event_id` of your own makes trying again safe."""

    model_config = an_example(event_type="Shop.Order.Created", aggregate_id="o1", payload={"total": 12})

    event_type: Annotated[str, Field(min_length=1, max_length=200, examples=["Shop.Order.Created"])]
    """What has happened, as `Domain.Thing.Happened`."""
    aggregate_id: Text
    """The thing that it is about."""
    payload: Json = None
    """What there is to say about it: any JSON."""
    event_id: Text | None = None
    """An id of your own; without it one is made."""
    event_version: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Which shape its payload has."""
    aggregate_type: Text | None = None
    """What kind of thing it is about; without it the type's own word for it."""
    key: Text | None = None
    """Events of one key stay in order; without it the `aggregate_id`."""
    topic: Annotated[str, Field(pattern="^[A-Za-z0-9._-]{1,200}$")] | None = None
    """The topic; without it the one of its type."""
    correlation_id: Text | None = None
    causation_id: Text | None = None
    """The event that led to it."""
    user_id: Text | None = None
    occurred_at: When | None = None
    """When it happened; without it: now."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """What goes along with it, as text."""

    def event(self) -> Event:
        given = self.model_dump(exclude={"occurred_at"})
        return Event(**given, occurred_at=None if self.occurred_at is None else instant_of(self.occurred_at))


class PublishRequest(RequestModel):
    """Events that are published together, all of them or none."""

    events: Annotated[list[NewEvent], Field(min_length=1, max_length=MAX_PUBLISHED)]
    """The events, at most 1,000."""


class PublishedModel(AnswerModel):
    """Their ids, in the order in which they were given. `added` leaves out those that were known already."""

    model_config = an_example(event_ids=["0199c5e0-7d1b-7c1a-be35-9b5ca80650f6"], added=1)

    event_ids: list[str]
    """The ids of the events."""
    added: int
    """How many were not known yet."""


class DeadEventsRequest(RequestModel):
    """Which dead letters: by their events, by a filter, or `all: true`."""

    model_config = an_example(consumer="billing", dry_run=True)

    event_ids: Ids | None = None
    """Just these."""
    consumer: Text | None = None
    """Only those of this consumer."""
    topic: Text | None = None
    """Only those of this topic."""
    key: Text | None = None
    """Only those of this key."""
    user: Text | None = None
    all: bool = False
    dry_run: bool = False
    """Only count."""
    expected: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None
    """How many somebody agreed to. If it is another number now, nothing is changed."""

    def wanted(self) -> DeadQuery:
        query = DeadQuery(
            consumer=self.consumer,
            topic=self.topic,
            key=self.key,
            user_id=self.user,
            event_ids=tuple(self.event_ids or ()),
        )
        if query.is_narrow == self.all:
            raise InvalidInput(
                "Say which dead letters: `event_ids`, a filter (`consumer`, `topic`, `key`, `user`) or `all: true`."
            )
        return query


class ChangedModel(AnswerModel):
    """How many were meant, and how many were changed."""

    matched: int
    changed: int


class OutboxModel(AnswerModel):
    """What the outbox holds that is not on the bus."""

    model_config = an_example(waiting=3, oldest_seconds=0.4, bus="kafka")

    waiting: int
    """How many events wait for the bus."""
    oldest_seconds: float
    """For how long the first of them has waited."""
    refused: int
    """How many the bus has refused."""
    bus: str
    """Which bus it is."""


class RefusedEventsRequest(RequestModel):
    """Which events that the bus has refused: those named, or `all: true`; to be offered again, or removed."""

    model_config = an_example(all=True)

    event_ids: Ids | None = None
    """Just these."""
    all: bool = False
    purge: bool = False
    """Remove them instead."""


class RetryGroupModel(AnswerModel):
    """The events of one key that wait at a consumer behind the first of them, which has failed."""

    model_config = an_example(
        consumer="billing",
        topic="rota.shop.order",
        key="o1",
        waiting=3,
        first_event_id="0199c5e0-7d1b-7c1a-be35-9b5ca80650f6",
        error="ConnectionError: timed out",
    )

    consumer: str
    """The name of the consumer."""
    topic: str
    """The topic that they came from."""
    key: str
    """The key that they share."""
    waiting: int
    """How many wait."""
    first_event_id: str
    """The event that has failed."""
    since_at: Moment
    """Since when they have waited."""
    attempts: int
    next_at: Moment
    """When the first is tried again."""
    error: str | None


class ConsumerModel(AnswerModel):
    """How a consumer stands. `lag` is null while the bus cannot be asked; `here` says that this process has it."""

    model_config = an_example(consumer="billing", here=True, topics=["rota.shop.order"], lag={"rota.shop.order": 0})

    consumer: str
    """Its name."""
    here: bool
    """Whether this process has it."""
    topics: list[str]
    """The topics that it reads."""
    lag: dict[str, int] | None
    """How many events it has still to read, by topic; null while the bus cannot be asked."""
    retrying: int
    """How many events it tries again."""
    dead: int
    """How many it has given up."""


class ConsumersModel(AnswerModel):
    """Every consumer, and the keys that wait."""

    items: list[ConsumerModel]
    retries: list[RetryGroupModel]
    """The keys that wait, the longest first."""


class ReplayRequest(RequestModel):
    """Have a consumer read again: what was published since a moment (`since`), or in the last while (`last`)."""

    model_config = an_example(consumer="billing", last="1h")

    consumer: Text
    """Who is to read again."""
    topics: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = None
    """What it is to read again; without it everything that it reads."""
    since: When | None = None
    """From which moment on."""
    last: Duration | None = None
    """How far back from now."""


class ReplayModel(AnswerModel):
    """What is read again."""

    model_config = an_example(consumer="billing", topics=["rota.shop.order"])

    consumer: str
    """Who reads again."""
    topics: list[str]
    """What is read again."""
    since: Moment
    """From which moment on."""


class HandleModel(AnswerModel):
    """A flow that waits for events, or has waited. Of its callback the kind only."""

    model_config = an_example(
        id="0199c5e0-8a11-7f5e-8d1c-6f0c0b8f4c11",
        task_name="orders",
        expected=["Shop.Order.Created"],
        expected_count=3,
        done=1,
        expires_at="2026-11-19T09:00:00Z",
    )

    id: str
    """What it is called."""
    correlation_id: str
    flow_run_id: str | None
    """The flow that waits; null: nobody is called."""
    task_name: str
    """What is waited for, as the flow calls it."""
    expected: list[str]
    """The types of events that count."""
    expected_count: int
    """How many of them are waited for."""
    done: int
    """How many have come that say that it went well."""
    failed: int
    """How many have come that say that it did not."""
    status: HandleStatus
    """Whether it waits, is being resumed, or is over."""
    callback: str | None
    """How the flow is called: `webhook` or `prefect`; null: it asks."""
    user_id: str | None
    error: str | None
    """Why the flow could not be called; null if nothing went wrong."""
    attempts: int
    """How often the flow was called."""
    next_at: Moment | None
    """When it is called again; null: it is not."""
    expires_at: Moment
    """When it goes on with what has come by then."""
    resumed_at: Moment | None
    """When the flow went on; null: it waits."""
    created_at: Moment


class HandleDetailsModel(HandleModel):
    """The same with the events that were counted, in the order of their arrival."""

    event_ids: list[str]
    """The events that were counted, in the order in which they came."""


class NewHandle(RequestModel):
    """What a flow is going to wait for. Without a callback nobody is called: whoever waits asks."""

    model_config = an_example(
        correlation_id="order-77", expected=["Shop.Order.Created"], expected_count=3, task_name="orders", timeout="30m"
    )

    correlation_id: Text
    expected: Annotated[list[Text], Field(min_length=1, max_length=100)]
    """The types of events that count."""
    expected_count: Annotated[int, Field(ge=1, le=1_000_000)]
    """How many of them to wait for."""
    task_name: Text
    """What is waited for, as the flow calls it."""
    failed_types: Annotated[list[Text], Field(max_length=100)] = Field(default_factory=list[str])
    """Those types of events that say that it did not go well."""
    flow_run_id: Text | None = None
    """The flow that waits, for `prefect`."""
    callback: dict[str, Json] | None = Field(
        default=None, description='{"kind": "webhook", "url": ..., "secret": ...} or {"kind": "prefect"}.'
    )
    timeout: Duration = "1h"
    """How long to wait at most; then it goes on with what has come."""
    user_id: Text | None = None


# --- looking ---------------------------------------------------------------------------------------------------------


async def _reading(service: Viewing) -> EventReading:
    return EventReading(await service.app.database())


Reading = Annotated[EventReading, Depends(_reading)]


@reading.get("/events", operation_id="list_events", response_model=PageModel[EventModel])
async def list_events(
    read: Reading,
    status: Literal["new", "sent", "dead"] | None = None,
    topic: TopicFilter = None,
    event_type: TypeFilter = None,
    correlation_id: IdFilter = None,
    aggregate_id: AggregateFilter = None,
    key: IdFilter = None,
    user: IdFilter = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """A page of events, newest first: `new` waits for the bus, `sent` is on it, `dead` was refused by it."""
    wanted = EventFilter(
        status=() if status is None else (status,),
        topic=topic,
        event_type=event_type,
        correlation_id=correlation_id,
        aggregate_id=aggregate_id,
        key=key,
        user_id=user,
    )
    return page_shape(await read.events(wanted, limit, cursor), lambda event: event.to_dict())


@reading.get("/events/dead", operation_id="list_dead_events", response_model=PageModel[HandledModel])
async def list_dead_events(
    read: Reading,
    consumer: ConsumerFilter = None,
    topic: TopicFilter = None,
    key: IdFilter = None,
    user: IdFilter = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """A page of what consumers have given up, newest first."""
    wanted = DeadQuery(consumer=consumer, topic=topic, key=key, user_id=user)
    return page_shape(await read.dead_letters(wanted, limit, cursor), lambda letter: letter.to_dict())


@reading.get("/events/consumers", operation_id="list_event_consumers", response_model=ConsumersModel)
async def list_event_consumers(service: Viewing, read: Reading, limit: Limit = 50) -> dict[str, Any]:
    """Every consumer with its lag, and the keys that wait to be tried again, the longest first."""
    views = await views_of(service.app.host.part(EventsPart))
    return {
        "items": [view.to_dict() for view in views],
        "retries": [group.to_dict() for group in await read.retries(limit)],
    }


@reading.get("/events/{event_id}", operation_id="get_event", response_model=EventDetailsModel)
async def get_event(read: Reading, event_id: IdInPath) -> dict[str, Any]:
    """One event, and what each consumer has made of it."""
    event, handled = await read.event(event_id)
    return {
        "event": None if event is None else event.to_dict(),
        "consumers": [one.to_dict() for one in handled],
    }


@reading.get("/outbox", operation_id="get_outbox", response_model=OutboxModel)
async def get_outbox(service: Viewing, read: Reading) -> dict[str, Any]:
    """What waits to be published, and for how long."""
    events = await service.app.host.part(EventsPart).events()
    return {**(await read.figures()).to_dict(), "bus": events.bus.name}


@reading.get("/handles", operation_id="list_handles", response_model=PageModel[HandleModel])
async def list_handles(
    service: Viewing,
    status: HandleStatus | None = None,
    correlation_id: IdFilter = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """A page of flows that wait for events, or have waited, newest first."""
    handles = Handles(await service.app.database())
    page = await handles.find(status=status, correlation_id=correlation_id, limit=limit, cursor=cursor)
    return page_shape(page, handle_dict)


@reading.get("/handles/{id}", operation_id="get_handle", response_model=HandleDetailsModel)
async def get_handle(service: Viewing, id: IdInPath) -> dict[str, Any]:  # noqa: A002 - the word of the address
    """One of them, with the events that were counted."""
    handles = Handles(await service.app.database())
    return {**handle_dict(await handles.get(id)), "event_ids": await handles.event_ids(id)}


# --- acting ----------------------------------------------------------------------------------------------------------


@acting.post("/events", operation_id="publish_events", response_model=PublishedModel, status_code=201)
async def publish_events(operator: At, request: PublishRequest) -> dict[str, Any]:
    """Publish events. One whose `event_id` is known already is not published again."""
    return (await operator.publish(*(one.event() for one in request.events)))._asdict()


@acting.post("/events/dead/redrive", operation_id="redrive_dead_events", response_model=ChangedModel)
async def redrive_dead_events(operator: At, read: Reading, request: DeadEventsRequest) -> dict[str, Any]:
    """Have dead letters tried again, with fresh counts."""
    wanted = request.wanted()
    if request.dry_run:
        return {"matched": await read.count_dead(wanted), "changed": 0}
    changed = await operator.redrive(wanted, expected=request.expected)
    return {"matched": changed, "changed": changed}


@acting.post("/events/dead/purge", operation_id="purge_dead_events", response_model=ChangedModel)
async def purge_dead_events(operator: At, read: Reading, request: DeadEventsRequest) -> dict[str, Any]:
    """Remove dead letters for good."""
    wanted = request.wanted()
    if request.dry_run:
        return {"matched": await read.count_dead(wanted), "changed": 0}
    changed = await operator.purge(wanted, expected=request.expected)
    return {"matched": changed, "changed": changed}


@acting.post("/events/replay", operation_id="replay_events", response_model=ReplayModel)
async def replay_events(service: Viewing, operator: At, request: ReplayRequest) -> dict[str, Any]:
    """Have a consumer read again what was published since then. What it has done already is passed over."""
    since = await _since(service, request)
    return (await operator.replay(request.consumer, request.topics, since)).to_dict()


async def _since(service: Viewing, request: ReplayRequest) -> Instant:
    if (request.since is None) == (request.last is None):
        raise InvalidInput('Say from when on: `since` (a time) or `last` (a duration like "1h"), one of them.')
    if request.since is not None:
        return instant_of(request.since)
    assert request.last is not None
    return await (await service.app.database()).now() - parse_duration(request.last, what="time to replay")


@acting.post("/outbox/retry", operation_id="retry_outbox", response_model=ChangedModel)
async def retry_outbox(operator: At, request: RefusedEventsRequest) -> dict[str, Any]:
    """Offer events to the bus again that it has refused; with `purge` they are removed instead."""
    if (request.event_ids is not None) == request.all:
        raise InvalidInput("Say which events: `event_ids`, or `all: true`; one of them.")
    act = operator.purge_outbox if request.purge else operator.retry_outbox
    changed = await act(request.event_ids)
    return {"matched": changed, "changed": changed}


@acting.post("/handles", operation_id="create_handle", response_model=HandleModel, status_code=201)
async def create_handle(operator: At, request: NewHandle) -> dict[str, Any]:
    """Have events counted from now on, for a flow that is going to wait. Make it before the first of them."""
    given = request.model_dump(exclude={"timeout"})
    timeout_ms = parse_duration(request.timeout, what="timeout of a handle")
    return handle_dict(await operator.create_handle(**given, timeout_ms=timeout_ms))


@acting.post("/handles/{id}/resume", operation_id="resume_handle", response_model=HandleModel)
async def resume_handle(operator: At, id: IdInPath) -> dict[str, Any]:  # noqa: A002 - the word of the address
    """Let a flow go on with what has come so far, or call it again now."""
    return handle_dict(await operator.resume_handle(id))
