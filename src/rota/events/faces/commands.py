"""`rota event`, `rota outbox`, `rota handle`: what was published, what became of it, and flows that wait for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli.bulk import DryRunOption, YesOption, is_agreed
from rota.cli.invocation import Cli
from rota.cli.output import Column
from rota.cli.pages import CursorOption, LimitOption, WatchOption, with_watch
from rota.clock import parse_duration
from rota.errors import InvalidInput
from rota.stores.base import DEFAULT_PAGE

if TYPE_CHECKING:
    from rota.database import Database
    from rota.events.handle import Handle
    from rota.events.operator import EventOperator
    from rota.events.part import EventsPart
    from rota.events.reading import ConsumerView, DeadQuery

__all__ = [
    "consumers",
    "dlq",
    "handle_ls",
    "handle_resume",
    "handle_show",
    "ls",
    "outbox_ls",
    "outbox_retry",
    "purge",
    "redrive",
    "replay",
    "show",
]

EventArgument = Annotated[str, typer.Argument(metavar="ID", help="The event's id, as `event ls` prints it.")]
EventsArgument = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The ids of the events.")]
HandleArgument = Annotated[str, typer.Argument(metavar="ID", help="The handle's id, as `handle ls` prints it.")]
TopicOption = Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic.")]
TypeOption = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="Only events of this type, e.g. Shop.Order.Created.")
]
CorrelationOption = Annotated[str | None, typer.Option("--correlation", metavar="ID", help="Only this correlation id.")]
AggregateOption = Annotated[str | None, typer.Option("--aggregate", metavar="ID", help="Only this aggregate.")]
KeyOption = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only this key.")]
UserOption = Annotated[str | None, typer.Option("--user", metavar="ID", help="Only this user.")]
ConsumerOption = Annotated[str | None, typer.Option("--consumer", metavar="NAME", help="Only this consumer.")]
AllOption = Annotated[bool, typer.Option("--all", help="Every one of them.")]

_EVENTS: Final = (
    Column("TYPE", "event_type"),
    Column("STATUS", "status"),
    Column("OCCURRED", "occurred_at"),
    Column("ERROR", "error", gives_way=True),
    Column("KEY", "key", is_id=True),
    Column("ID", "event_id", is_id=True),
)
_HANDLED: Final = (
    Column("CONSUMER", "consumer", is_id=True),
    Column("STATUS", "status"),
    Column("AT", "at"),
    Column("ATTEMPTS", "attempts", leaves=1),
    Column("NEXT", "next_at", leaves=2),
    Column("ERROR", "error", gives_way=True),
)
_DEAD: Final = (
    Column("TYPE", "event_type", is_id=True),
    Column("CONSUMER", "consumer", is_id=True),
    Column("AT", "at"),
    Column("ERROR", "error", gives_way=True),
    Column("ATTEMPTS", "attempts", leaves=1),
    Column("KEY", "key", is_id=True, leaves=2),
    Column("ID", "event_id", is_id=True),
)
_CONSUMERS: Final = (
    Column("CONSUMER", "consumer", is_id=True),
    Column("LAG", "behind"),
    Column("RETRYING", "retrying"),
    Column("DEAD", "dead"),
)
_HANDLES: Final = (
    Column("TASK", "task_name"),
    Column("STATUS", "status"),
    Column("DONE", "progress"),
    Column("EXPIRES", "expires_at"),
    Column("ERROR", "error", gives_way=True),
    Column("CORRELATION", "correlation_id", is_id=True),
    Column("ID", "id", is_id=True),
)


class EventStatus(StrEnum):
    """Where an event stands."""

    NEW = "new"
    SENT = "sent"
    DEAD = "dead"


class FlowStatus(StrEnum):
    """Where a handle stands."""

    PENDING = "pending"
    READY = "ready"
    RESUMING = "resuming"
    RESUMED = "resumed"
    EXPIRED = "expired"
    FAILED = "failed"


StatusOption = Annotated[EventStatus | None, typer.Option("--status", help="Only these.")]


@asynccontextmanager
async def opened(cli: Cli) -> AsyncGenerator[tuple[EventsPart, Database, EventOperator]]:
    """The events of the app, their database, and who acts in the name of whoever sits here."""
    from rota.events.operator import EventOperator
    from rota.events.part import EventsPart

    async with cli.session() as session:
        part = session.app.host.part(EventsPart)
        operator = EventOperator(part, session.operator.principal, session.app.database)
        yield part, await session.app.database(), operator


# --- events ----------------------------------------------------------------------------------------------------------


async def ls(
    cli: Cli,
    status: StatusOption = None,
    topic: TopicOption = None,
    event_type: TypeOption = None,
    correlation: CorrelationOption = None,
    aggregate: AggregateOption = None,
    key: KeyOption = None,
    user: UserOption = None,
    limit: LimitOption = DEFAULT_PAGE,
    cursor: CursorOption = None,
    watch: WatchOption = False,
) -> None:
    """List events, newest first: new ones wait for the bus, sent ones are on it, dead ones were refused by it."""
    from rota.events.reading import EventFilter, EventReading

    wanted = EventFilter(
        status=() if status is None else (status.value,),
        topic=topic,
        event_type=event_type,
        correlation_id=correlation,
        aggregate_id=aggregate,
        key=key,
        user_id=user,
    )
    async with opened(cli) as (_, database, _):

        async def list_them() -> None:
            page = await EventReading(database).events(wanted, limit, cursor)
            empty = "No events. An application publishes them: `await (await app.events()).outbox.publish(Event(...))`."
            cli.output.page([one.to_dict() for one in page.items], _EVENTS, cursor=page.cursor, empty=empty)

        await with_watch(cli, list_them, watch=watch)


async def show(cli: Cli, event_id: EventArgument) -> None:
    """Show one event, and what each consumer has made of it."""
    from rota.events.reading import EventReading

    async with opened(cli) as (_, database, _):
        event, handled = await EventReading(database).event(event_id)
    consumers = [one.to_dict() for one in handled]
    if cli.output.as_json:
        cli.output.one({"event": None if event is None else event.to_dict(), "consumers": consumers})
        return
    if event is not None:
        cli.output.one(event.to_dict())
        cli.output.say("")
    cli.output.page(consumers, _HANDLED, empty="No consumer has begun with it.")


async def dlq(
    cli: Cli,
    consumer: ConsumerOption = None,
    topic: TopicOption = None,
    key: KeyOption = None,
    user: UserOption = None,
    limit: LimitOption = DEFAULT_PAGE,
    cursor: CursorOption = None,
) -> None:
    """List what consumers have given up, newest first, with what went wrong."""
    from rota.events.reading import DeadQuery, EventReading

    wanted = DeadQuery(consumer=consumer, topic=topic, key=key, user_id=user)
    async with opened(cli) as (_, database, _):
        page = await EventReading(database).dead_letters(wanted, limit, cursor)
    cli.output.page([one.to_dict() for one in page.items], _DEAD, cursor=page.cursor, empty="No dead letters.")


async def redrive(
    cli: Cli,
    event_ids: EventsArgument = None,
    consumer: ConsumerOption = None,
    topic: TopicOption = None,
    key: KeyOption = None,
    user: UserOption = None,
    every: AllOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Have dead letters tried again, with fresh counts."""
    wanted = _wanted(event_ids, consumer, topic, key, user, every=every)
    await _change(cli, wanted, "redriven", "Try {} again?", lambda at: at.redrive, yes=yes, dry_run=dry_run)


async def purge(
    cli: Cli,
    event_ids: EventsArgument = None,
    consumer: ConsumerOption = None,
    topic: TopicOption = None,
    key: KeyOption = None,
    user: UserOption = None,
    every: AllOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Remove dead letters for good."""
    wanted = _wanted(event_ids, consumer, topic, key, user, every=every)
    await _change(cli, wanted, "purged", "Remove {} for good?", lambda at: at.purge, yes=yes, dry_run=dry_run)


def _wanted(
    event_ids: list[str] | None,
    consumer: str | None,
    topic: str | None,
    key: str | None,
    user: str | None,
    *,
    every: bool,
) -> DeadQuery:
    from rota.events.reading import DeadQuery

    query = DeadQuery(consumer=consumer, topic=topic, key=key, user_id=user, event_ids=tuple(event_ids or ()))
    if query.is_narrow == every:
        given = "both a choice and --all were given" if every else "none was named"
        raise InvalidInput(
            f"Which dead letters? {given.capitalize()}. Give ids, --consumer, --topic, --key or --user, or --all."
        )
    return query


async def _change(
    cli: Cli,
    wanted: DeadQuery,
    done: str,
    question: str,
    verb: Callable[[EventOperator], Callable[..., Awaitable[int]]],
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    from rota.events.reading import EventReading

    async with opened(cli) as (_, database, operator):
        count = await EventReading(database).count_dead(wanted)
        if dry_run:
            cli.output.one({"matching": count, done: 0}, f"{_letters(count)} would be {done}.")
            return
        if count and not is_agreed(question.format(_letters(count)), yes=yes):
            cli.output.one({"matching": count, done: 0}, "Nothing was changed.")
            return
        changed = await verb(operator)(wanted)
    cli.output.one({"matching": count, done: changed}, f"{_letters(changed)} {done}.")


def _letters(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count:,} dead letters"


async def consumers(cli: Cli, watch: WatchOption = False) -> None:
    """List the consumers: how many events each has not done yet, what it tries again, what it has given up."""
    from rota.events.reading import views_of

    async with opened(cli) as (part, _, _):

        async def list_them() -> None:
            views = await views_of(part)
            items = [view.to_dict() for view in views]
            if not cli.output.as_json:
                items = [{**item, "behind": _behind(view)} for item, view in zip(items, views, strict=True)]
            empty = "No consumers. `@app.consumer('Shop.Order.Created')` makes a function one, wherever a worker runs."
            cli.output.page(items, _CONSUMERS, empty=empty)

        await with_watch(cli, list_them, watch=watch)


def _behind(view: ConsumerView) -> str:
    return ", ".join(f"{topic} {'unknown' if lag is None else f'{lag:,}'}" for topic, lag in view.behind)


async def replay(
    cli: Cli,
    consumer: Annotated[str, typer.Option("--consumer", metavar="NAME", help="Who is to read again.")],
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="Since when: 1h (ago), or a time in ISO 8601.")],
    topics: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be repeated.")
    ] = None,
) -> None:
    """Have a consumer read events again. What it has done already is passed over."""
    async with opened(cli) as (_, database, operator):
        replayed = await operator.replay(consumer, topics or None, _instant(since, await database.now()))
    said = replayed.to_dict()
    cli.output.one(said, f"{said['consumer']} reads {', '.join(replayed.topics)} again, since {said['since']}.")


def _instant(text: str, now: int) -> int:
    from rota.events.shapes import instant_of

    try:
        return now - parse_duration(text)
    except InvalidInput:
        return instant_of(text)


# --- the outbox ------------------------------------------------------------------------------------------------------


async def outbox_ls(
    cli: Cli,
    status: StatusOption = None,
    limit: LimitOption = DEFAULT_PAGE,
    cursor: CursorOption = None,
    watch: WatchOption = False,
) -> None:
    """List what is not on the bus: what waits, and what the bus has refused."""
    from rota.events.reading import EventFilter, EventReading

    wanted = EventFilter(status=("new", "dead") if status is None else (status.value,))
    async with opened(cli) as (_, database, _):
        reading = EventReading(database)

        async def list_them() -> None:
            page, figures = await reading.events(wanted, limit, cursor), (await reading.figures()).to_dict()
            cli.output.note(
                f"{figures['waiting']:,} wait, the first for {figures['oldest_seconds']:.0f} s;"
                f" {figures['refused']:,} refused."
            )
            items = [one.to_dict() for one in page.items]
            cli.output.page(items, _EVENTS, cursor=page.cursor, empty="All events are on the bus.", **figures)

        await with_watch(cli, list_them, watch=watch)


async def outbox_retry(
    cli: Cli,
    event_ids: EventsArgument = None,
    every: AllOption = False,
    purge_them: Annotated[bool, typer.Option("--purge", help="Remove them instead.")] = False,
    yes: YesOption = False,
) -> None:
    """Offer events to the bus again that it has refused."""
    if bool(event_ids) == every:
        raise InvalidInput("Which events? Give the ids of some, as `rota outbox ls` prints them, or --all.")
    if purge_them and not is_agreed("Remove them for good?", yes=yes):
        cli.output.one({"changed": 0}, "Nothing was changed.")
        return
    async with opened(cli) as (_, _, operator):
        changed = await (operator.purge_outbox if purge_them else operator.retry_outbox)(event_ids or None)
    many = "1 event" if changed == 1 else f"{changed:,} events"
    cli.output.one({"changed": changed}, f"{many} {'purged' if purge_them else 'offered again'}.")


# --- flows that wait -------------------------------------------------------------------------------------------------


async def handle_ls(
    cli: Cli,
    status: Annotated[FlowStatus | None, typer.Option("--status", help="Only these.")] = None,
    correlation: CorrelationOption = None,
    limit: LimitOption = DEFAULT_PAGE,
    cursor: CursorOption = None,
    watch: WatchOption = False,
) -> None:
    """List the flows that wait for events, or have waited, newest first."""
    from rota.events.handle import HandleStatus
    from rota.events.handles import Handles
    from rota.events.shapes import handle_dict

    only = None if status is None else HandleStatus(status.value)
    async with opened(cli) as (_, database, _):

        async def list_them() -> None:
            page = await Handles(database).find(status=only, correlation_id=correlation, limit=limit, cursor=cursor)
            items = [handle_dict(one) for one in page.items]
            if not cli.output.as_json:
                items = [{**item, "progress": _progress(one)} for item, one in zip(items, page.items, strict=True)]
            cli.output.page(items, _HANDLES, cursor=page.cursor, empty="No flow waits for events.")

        await with_watch(cli, list_them, watch=watch)


def _progress(handle: Handle) -> str:
    """What has come of what is expected, for people."""
    come = f"{handle.done:,} of {handle.expected_count:,}"
    return f"{come}, {handle.failed:,} failed" if handle.failed else come


async def handle_show(cli: Cli, handle_id: HandleArgument) -> None:
    """Show one of them, with the events that were counted."""
    from rota.events.handles import Handles
    from rota.events.shapes import handle_dict

    async with opened(cli) as (_, database, _):
        handles = Handles(database)
        shown: Mapping[str, Any] = {
            **handle_dict(await handles.get(handle_id)),
            "event_ids": await handles.event_ids(handle_id),
        }
    cli.output.one(shown)


async def handle_resume(cli: Cli, handle_id: HandleArgument) -> None:
    """Let a flow go on with what has come so far, or call it again now."""
    from rota.events.shapes import handle_dict

    async with opened(cli) as (_, _, operator):
        handle = await operator.resume_handle(handle_id)
    cli.output.one(handle_dict(handle), f"The handle {handle.id} is {handle.status}.")
