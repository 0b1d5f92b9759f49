"""Reading, for the faces: what was published, what became of it at each consumer, what waits and what was given up."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Row, Select, func, literal_column, select

from rota.clock import SECOND, Instant, Millis, isoformat
from rota.codec import warmed
from rota.core.task_type import did_you_mean
from rota.database import Database
from rota.database.tables.events import inbox, offsets, outbox
from rota.errors import InvalidInput, RotaError
from rota.events.consumer import canonical
from rota.events.envelope import check_topic
from rota.events.kept import Kept, kept_message
from rota.masking import masker
from rota.stores.base import DEFAULT_PAGE, Page, page_of
from rota.stores.limits import check_page

if TYPE_CHECKING:
    from rota.events.buses.base import Bus
    from rota.events.part import EventsPart

__all__ = [
    "ConsumerView",
    "DeadLetter",
    "DeadQuery",
    "EventFilter",
    "EventReading",
    "EventView",
    "Handled",
    "Known",
    "OutboxFigures",
    "RetryGroup",
    "UnknownConsumer",
    "UnknownEvent",
    "event_view",
    "find_consumer",
    "handled_view",
    "known_consumers",
    "lags_of",
    "topics_for",
    "views_of",
    "waited_ms",
]

_HEADERS: Final = warmed(msgspec.json.Decoder(dict[str, str]), "{}")

NEWEST: Final = 10_000
"""So many of the newest rows of the inbox tell which topics a consumer reads that this process does not know."""
LAG_SECONDS: Final = 5.0
"""A page waits no longer for the bus."""

_STATUS: Final = ("new", "sent", "dead")
_IS_NEW: Final = outbox.c.status == literal_column("'new'")
_IS_REFUSED: Final = outbox.c.status == literal_column("'dead'")
_IS_DEAD: Final = inbox.c.status == literal_column("'dead'")
_IS_RETRYING: Final = inbox.c.status == literal_column("'retrying'")


class UnknownEvent(RotaError, LookupError):
    """No event has this id, or it was pruned."""

    code = "unknown_event"


class UnknownConsumer(RotaError, LookupError):
    """No consumer has this name, here or in the database."""

    code = "unknown_consumer"


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of the outbox: whatever is None does not matter."""

    status: tuple[str, ...] = ()
    """new, sent or dead; any of them if empty."""
    topic: str | None = None
    event_type: str | None = None
    correlation_id: str | None = None
    aggregate_id: str | None = None
    key: str | None = None
    user_id: str | None = None


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """An event in the outbox."""

    event_id: str
    seq: int
    topic: str
    key: str
    partition: int
    event_type: str
    event_version: int
    aggregate_type: str
    aggregate_id: str
    correlation_id: str | None
    causation_id: str | None
    user_id: str | None
    occurred_at: Instant
    status: str
    attempts: int
    error: str | None
    sent_at: Instant | None
    headers: dict[str, str]
    payload: object

    def to_dict(self) -> dict[str, object]:
        return {
            **msgspec.structs.asdict(self),
            "occurred_at": isoformat(self.occurred_at),
            "sent_at": isoformat(self.sent_at),
        }


class Handled(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer has made of an event so far."""

    consumer: str
    event_id: str
    topic: str
    key: str
    status: str
    attempts: int
    crashes: int
    next_at: Instant | None
    """When it is tried again, if it is."""
    error_class: str | None
    error: str | None
    user_id: str | None
    at: Instant

    def to_dict(self) -> dict[str, object]:
        return {**msgspec.structs.asdict(self), "next_at": isoformat(self.next_at), "at": isoformat(self.at)}


class DeadLetter(Handled, frozen=True, kw_only=True):
    """An event that a consumer has given up, with the message as the bus had brought it."""

    seq: int
    event_type: str | None
    message: object


class DeadQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters: whatever is None does not matter."""

    consumer: str | None = None
    topic: str | None = None
    key: str | None = None
    user_id: str | None = None
    event_ids: tuple[str, ...] = ()

    @property
    def is_narrow(self) -> bool:
        return self != DeadQuery()

    @property
    def words(self) -> str:
        """Which ones, for people and for the audit log."""
        given = [f"{name}={value}" for name, value in msgspec.structs.asdict(self).items() if value]
        return ", ".join(given) or "all"


class RetryGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The events of one key that wait at a consumer: the first of them has failed, the others wait behind it."""

    consumer: str
    topic: str
    key: str
    waiting: int
    first_event_id: str
    since_at: Instant
    attempts: int
    next_at: Instant
    error: str | None

    def to_dict(self) -> dict[str, object]:
        return {
            **msgspec.structs.asdict(self),
            "since_at": isoformat(self.since_at),
            "next_at": isoformat(self.next_at),
        }


class OutboxFigures(NamedTuple):
    """What the outbox holds that is not on the bus."""

    waiting: int
    oldest_ms: Millis | None
    """For how long the first of them has waited; None if none does."""
    refused: int
    """Those that the bus will never take."""
    now: Instant

    @property
    def oldest_seconds(self) -> float:
        return 0.0 if self.oldest_ms is None else self.oldest_ms / SECOND

    def to_dict(self) -> dict[str, object]:
        return {"waiting": self.waiting, "oldest_seconds": self.oldest_seconds, "refused": self.refused}


class Known(NamedTuple):
    """A consumer that this process has, or that has left a trace in the database."""

    name: str
    topics: tuple[str, ...]
    is_here: bool
    """Whether this process has it."""


class ConsumerView(NamedTuple):
    """How a consumer stands."""

    name: str
    is_here: bool
    lag: Mapping[str, int] | None
    """What it has not done yet, by topic; None if the bus cannot be asked."""
    topics: Sequence[str]
    retrying: int
    dead: int

    @property
    def behind(self) -> list[tuple[str, int | None]]:
        """The same for people: where it is most comes first, and a topic that nobody can ask for has None."""
        lag = self.lag or {}
        return sorted(((topic, lag.get(topic)) for topic in self.topics), key=lambda one: (-(one[1] or 0), one[0]))

    def to_dict(self) -> dict[str, object]:
        return {
            "consumer": self.name,
            "here": self.is_here,
            "topics": list(self.topics),
            "lag": None if self.lag is None else dict(self.lag),
            "retrying": self.retrying,
            "dead": self.dead,
        }


class EventReading:
    """The events of one database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # --- the outbox ---

    async def events(
        self, wanted: EventFilter | None = None, limit: int = DEFAULT_PAGE, cursor: str | None = None
    ) -> Page[EventView]:
        """A page of events, newest first."""
        check_page(limit)
        query = _filtered(wanted or EventFilter()).order_by(outbox.c.seq.desc()).limit(limit + 1)
        if cursor is not None:
            query = query.where(outbox.c.seq < _number(cursor))
        rows = await self.database.read(lambda connection: connection.execute(query).all())
        return page_of([_shown(event_view(row)) for row in rows], limit, lambda event: str(event.seq))

    async def event(self, event_id: str) -> tuple[EventView | None, list[DeadLetter | Handled]]:
        """An event, and what each consumer has made of it. One that others have published is known by the latter."""

        def read(connection: Connection) -> tuple[EventView | None, list[DeadLetter | Handled]]:
            row = connection.execute(select(outbox).where(outbox.c.event_id == event_id)).first()
            names = sorted(_consumer_names(connection))
            query = select(inbox).where(inbox.c.consumer.in_(names), inbox.c.event_id == event_id)
            made = connection.execute(query.order_by(inbox.c.consumer)).all()
            return None if row is None else _shown(event_view(row)), [handled_view(one) for one in made]

        event, handled = await self.database.read(read)
        if event is None and not handled:
            raise UnknownEvent(
                f"No event has the id {event_id!r}. It may have been pruned; `rota event ls` lists them."
            )
        return event, handled

    async def figures(self) -> OutboxFigures:
        """What waits in the outbox, and for how long, by the database's clock."""
        return await self.database.read(self.figures_within)

    def figures_within(self, connection: Connection) -> OutboxFigures:
        now = self.database.backend.dialect.now(connection)
        waiting = connection.execute(select(func.count()).select_from(outbox).where(_IS_NEW)).scalar_one()
        refused = connection.execute(select(func.count()).select_from(outbox).where(_IS_REFUSED)).scalar_one()
        return OutboxFigures(waiting, waited_ms(connection, now) if waiting else None, refused, now)

    async def waits_ms(self) -> Millis | None:
        """For how long the first event in the outbox has waited; None if none does."""
        dialect = self.database.backend.dialect
        return await self.database.read(lambda connection: waited_ms(connection, dialect.now(connection)))

    # --- the inbox ---

    async def dead_letters(
        self, wanted: DeadQuery | None = None, limit: int = DEFAULT_PAGE, cursor: str | None = None
    ) -> Page[DeadLetter]:
        """A page of what consumers have given up, newest first."""
        check_page(limit)
        query, given = self.dead(wanted or DeadQuery())
        query = query.order_by(inbox.c.seq.desc()).limit(limit + 1)
        if cursor is not None:
            query = query.where(inbox.c.seq < _number(cursor))
        rows = await self.database.read(lambda connection: connection.execute(query, given).all())
        return page_of([_dead_letter(row) for row in rows], limit, lambda letter: str(letter.seq))

    def dead(self, wanted: DeadQuery) -> tuple[Select[Any], dict[str, object]]:
        """The rows of the inbox that are meant, and what to execute the query with."""
        query, given = select(inbox).where(_IS_DEAD), dict[str, object]()
        for name in ("consumer", "topic", "key", "user_id"):
            value = getattr(wanted, name)
            if value is not None:
                query = query.where(inbox.c[name] == (canonical(value) if name == "consumer" else value))
        if wanted.event_ids:
            dialect = self.database.backend.dialect
            query, given = query.where(dialect.among(inbox.c.event_id)), {"keys": dialect.keys(wanted.event_ids)}
        return query, given

    async def count_dead(self, wanted: DeadQuery | None = None) -> int:
        """How many dead letters match."""
        query, given = self.dead(wanted or DeadQuery())
        counting = select(func.count()).select_from(query.subquery())
        return await self.database.read(lambda connection: int(connection.execute(counting, given).scalar_one()))

    async def dead_by_consumer(self) -> dict[str, int]:
        """How many dead letters each consumer has; those who have none are left out."""
        return await self.database.read(lambda connection: _counted(connection, _IS_DEAD))

    async def retries_by_consumer(self) -> dict[str, int]:
        """How many events wait to be tried again, by consumer."""
        return await self.database.read(lambda connection: _counted(connection, _IS_RETRYING))

    async def retries(self, limit: int = DEFAULT_PAGE) -> list[RetryGroup]:
        """What waits to be tried again, by key; what has waited longest first."""
        check_page(limit)
        place = inbox.c.consumer, inbox.c.topic, inbox.c.key
        groups = (
            select(*place, func.count().label("waiting"), func.min(inbox.c.seq).label("head"))
            .where(_IS_RETRYING)
            .group_by(*place)
            .order_by(func.min(inbox.c.seq))
            .limit(limit)
            .subquery()
        )
        query = (
            select(inbox, groups.c.waiting).join_from(groups, inbox, inbox.c.seq == groups.c.head).order_by(inbox.c.seq)
        )
        rows = await self.database.read(lambda connection: connection.execute(query).all())
        return [
            RetryGroup(
                consumer=row.consumer,
                topic=row.topic,
                key=row.key,
                waiting=row.waiting,
                first_event_id=row.event_id,
                since_at=row.at,
                attempts=row.attempts,
                next_at=row.next_at,
                error=row.error,
            )
            for row in rows
        ]

    # --- who consumes ---

    async def consumers(self) -> dict[str, set[str]]:
        """The consumers that have left a trace in the database, with the topics that are known of each."""
        return await self.database.read(_consumers)

    async def has_any(self) -> bool:
        """Whether there is an event, or a trace of a consumer."""

        def read(connection: Connection) -> bool:
            looks = (select(table).limit(1) for table in (outbox, offsets, inbox))
            return any(connection.execute(look).first() is not None for look in looks)

        return await self.database.read(read)


# --- consumers, here and elsewhere ---


async def known_consumers(part: EventsPart) -> list[Known]:
    """Every consumer that there is: those of this process, and those that the database knows."""
    events = await part.events()
    traces = await EventReading(events.database).consumers()
    own = {consumer.name: consumer.topics_with(events.outbox.topic_of) for consumer in part.consumers}
    return [
        Known(name, tuple(sorted({*own.get(name, ()), *traces.get(name, ())})), name in own)
        for name in sorted({*own, *traces})
    ]


def find_consumer(known: Sequence[Known], name: str) -> Known:
    """The consumer of a name, or of an alias."""
    wanted = canonical(name)
    found = next((one for one in known if one.name == wanted), None)
    if found is None:
        names = [one.name for one in known]
        hint = did_you_mean(wanted, names) if names else "Nothing has been consumed yet."
        raise UnknownConsumer(f"There is no consumer {name!r}. {hint}")
    return found


def topics_for(consumer: Known, topics: Collection[str] | None) -> list[str]:
    """The topics that are meant of a consumer: those that are named, else all that it is known to read."""
    if topics is None and not consumer.topics:
        raise InvalidInput(
            f"Which topics the consumer {consumer.name!r} reads is not known here. Name them, or ask where it runs."
        )
    if topics is None:
        return list(consumer.topics)
    if not topics:
        raise InvalidInput("No topic was named. Name at least one, or none at all for every one of the consumer.")
    for topic in topics:
        check_topic(topic)
        if consumer.topics and topic not in consumer.topics:
            raise InvalidInput(
                f"The consumer {consumer.name!r} does not read the topic {topic!r}."
                f" {did_you_mean(topic, consumer.topics)}"
            )
    return list(topics)


async def lags_of(bus: Bus, known: Sequence[Known], *, seconds: float) -> dict[str, Mapping[str, int]] | None:
    """How many messages of each topic each consumer has not done yet; None if the bus does not say so in time."""
    asked = [one for one in known if one.topics]
    try:
        async with asyncio.timeout(seconds):
            answers = [await bus.lag(one.name, one.topics) for one in asked]
    except (RotaError, OSError, TimeoutError):
        return None
    return {one.name: answer for one, answer in zip(asked, answers, strict=True)}


async def views_of(part: EventsPart) -> list[ConsumerView]:
    """How every consumer stands, for people. A bus that is away costs nothing but the lag."""
    events = await part.events()
    reading = EventReading(events.database)
    known = await known_consumers(part)
    lags = await lags_of(events.bus, known, seconds=LAG_SECONDS)
    retrying, dead = await reading.retries_by_consumer(), await reading.dead_by_consumer()
    return [
        ConsumerView(
            name=one.name,
            is_here=one.is_here,
            lag=None if lags is None else lags.get(one.name, {}),
            topics=one.topics,
            retrying=retrying.get(one.name, 0),
            dead=dead.get(one.name, 0),
        )
        for one in known
    ]


# --- rows ---


def _filtered(wanted: EventFilter) -> Select[Any]:
    query = select(outbox)
    for name in ("topic", "event_type", "correlation_id", "aggregate_id", "key", "user_id"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(outbox.c[name] == value)
    if wanted.status:
        # Written out, not bound: SQLite uses a partial index only where the query says what the index says.
        is_known = [outbox.c.status == literal_column(f"'{status}'") for status in wanted.status if status in _STATUS]
        query = query.where(is_known[0] if len(is_known) == 1 else outbox.c.status.in_(wanted.status))
    return query


def event_view(row: Row[Any]) -> EventView:
    headers, payload = _HEADERS.decode(row.headers), msgspec.json.decode(row.payload)
    return EventView(**_picked(row, EventView, headers=headers, payload=payload))


def _shown(event: EventView) -> EventView:
    """With its secrets hidden: programs get theirs from the bus, here people read."""
    return replace(event, payload=masker().value(event.payload))


def handled_view(row: Row[Any]) -> DeadLetter | Handled:
    if row.status == "dead":
        return _dead_letter(row)
    next_at = row.next_at if row.status == "retrying" else None
    return Handled(**_picked(row, Handled, next_at=next_at))


def _dead_letter(row: Row[Any]) -> DeadLetter:
    kept = None if row.envelope is None else _kept(row.envelope)
    return DeadLetter(
        **_picked(row, Handled, next_at=None),
        seq=row.seq,
        event_type=None if kept is None else kept.headers.get("event_type") or _type_in(kept),
        message=None if kept is None else masker().value(kept.original()),
    )


def _picked(row: Row[Any], struct: type[msgspec.Struct], **others: Any) -> dict[str, Any]:
    """The columns of a row that are called as the fields are; `others` stand for themselves."""
    return {name: others[name] if name in others else getattr(row, name) for name in struct.__struct_fields__}


def _kept(text: str) -> Kept | None:
    try:
        return kept_message(text)
    except msgspec.MsgspecError:
        return None


def _type_in(kept: Kept) -> str | None:
    original = kept.original()
    said = original.get("event_type") if isinstance(original, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] -- it is whatever somebody has sent
    return said if isinstance(said, str) else None


def _number(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise InvalidInput(f"The cursor {cursor!r} is none of ours. Take it from the last page, unchanged.")
    return int(cursor)


_FIRST_NEW: Final = select(outbox.c.event_id, outbox.c.occurred_at).where(_IS_NEW).order_by(outbox.c.seq).limit(1)


def waited_ms(connection: Connection, now: Instant) -> Millis | None:
    row = connection.execute(_FIRST_NEW).first()
    return None if row is None else max(0, now - _added_at(row.event_id, row.occurred_at))


def _added_at(event_id: str, occurred_at: Instant) -> Instant:
    """When an event came into the outbox: its id says so, unless somebody has given it one of another kind. What it
    tells of may have occurred long before."""
    try:
        known = uuid.UUID(event_id)
    except ValueError:
        return occurred_at
    return known.int >> 80 if known.version == 7 else occurred_at


def _counted(connection: Connection, which: Any) -> dict[str, int]:
    query = select(inbox.c.consumer, func.count()).where(which).group_by(inbox.c.consumer)
    return {row[0]: row[1] for row in connection.execute(query)}


_first = select(func.min(inbox.c.consumer).label("name")).cte("names", recursive=True)
_next = select(func.min(inbox.c.consumer)).where(inbox.c.consumer > _first.c.name).scalar_subquery()
_NAMES: Final = _first.union_all(select(_next).where(_first.c.name.is_not(None)))
"""From name to name through the index: an inbox has millions of rows, and few consumers."""


def _consumer_names(connection: Connection) -> set[str]:
    of_inbox = connection.execute(select(_NAMES.c.name).where(_NAMES.c.name.is_not(None))).scalars()
    of_offsets = connection.execute(select(offsets.c.consumer).distinct()).scalars()
    return {*of_inbox, *of_offsets}


def _consumers(connection: Connection) -> dict[str, set[str]]:
    newest = select(inbox.c.consumer, inbox.c.topic).order_by(inbox.c.seq.desc()).limit(NEWEST).subquery()
    found: defaultdict[str, set[str]] = defaultdict(set)
    for query in (
        select(offsets.c.consumer, offsets.c.topic).distinct(),
        select(newest.c.consumer, newest.c.topic).distinct(),
    ):
        for consumer, topic in connection.execute(query):
            found[consumer].add(topic)
    for name in _consumer_names(connection):
        found[name] |= set()
    return dict(found)
