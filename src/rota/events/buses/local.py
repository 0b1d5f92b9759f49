"""The local bus: the outbox itself is the log, and nothing is needed beside the database.

A round of the relay gives committed events their positions, under one lock that is held until they are committed: so
whoever reads by position never passes over one that is committed later. How far a consumer has read, and which of its
instances owns which partition, are rows of `event_offsets`: a lease with a token, by the database's clock.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from sqlalchemy import Connection, and_, bindparam, case, delete, func, literal_column, or_, select, update

from rota.clock import Instant, Millis
from rota.database import Database
from rota.database.changes import Subscription
from rota.database.later import read_later, write_later
from rota.database.many import raise_many
from rota.database.tables.events import offsets, outbox
from rota.database.tables.leases import leases
from rota.database.tables.tasks import sequences
from rota.database.upsert import insert_new
from rota.errors import StoreError
from rota.events.buses.base import Bus, BusReader, Message, Outgoing, Place
from rota.events.outbox import headers_of, value_of_row
from rota.logs import get_logger

__all__ = ["LocalBus"]

PLACES_CHANGED: Final = "event places"
"""What whoever reads hears of when places are set back, or free."""
LEASE_MS: Final[Millis] = 10_000
UNSETTLED_SECONDS: Final = 0.3
"""How often it is looked whether there is something to take, or something was let go."""
HAND_OVER_SECONDS: Final = 5.0
"""For so long a partition that somebody else should have waits until all that was read of it is done."""

_POSITION: Final = "event_position"
_IS_NEW: Final = outbox.c.status == literal_column("'new'")

log = get_logger("rota.events")


class LocalBus(Bus):
    """Events in a table. As quick as the database, and as safe."""

    is_the_outbox = True

    def __init__(self, database: Database, *, partitions: int = 16, lease_ms: Millis = LEASE_MS) -> None:
        self.database = database
        self.partitions = partitions
        self.lease_ms = lease_ms
        self.name = "local"
        locked = database.backend.dialect.locked
        self._last_position = {wait: locked(_LAST_POSITION, pass_over=not wait) for wait in (True, False)}

    async def open(self) -> None:
        """The database is open."""

    async def close(self) -> None:
        """It is closed by whoever opened it."""

    async def publish(self, group: Sequence[Outgoing]) -> Sequence[None]:
        raise AssertionError("What is in the outbox is published by `place`, where it lies.")

    async def place(self, limit: int) -> Counter[str]:
        """Give new events their places in the log, in the order of insertion; how many there were of each topic."""
        if not await self.database.read(lambda connection: connection.execute(_ANY_NEW).first()):
            return Counter()
        return await self.database.shared(lambda connection: self.place_within(connection, limit)) or Counter()

    def place_within(self, connection: Connection, limit: int, *, wait: bool = True) -> Counter[str] | None:
        """The same within somebody's transaction, who lets nobody else place until its end. None if somebody else does
        so now, and nobody waits for that."""
        dialect = self.database.backend.dialect
        # Whoever comes next waits here, and sees what this one has placed.
        last = read_later(connection, self._last_position[wait], {}).rows()
        if not last:
            return None
        given = {"last": last[0][0], "now": dialect.now(connection), "limit": limit}
        placed = Counter(topic for (topic,) in read_later(connection, _PLACE, given).rows())
        if placed:
            write_later(connection, _MOVE_ON, {"placed": placed.total()})
            for topic in placed:
                self.database.changes.poke(connection, _placed_in(topic))
        return placed

    async def reader(self, consumer: str, topics: Collection[str], *, instance: str) -> LocalReader:
        reader = LocalReader(self, consumer, sorted(topics), instance)
        await reader.begin()
        return reader

    async def lag(self, consumer: str, topics: Collection[str]) -> Mapping[str, int]:
        read = and_(
            offsets.c.consumer == consumer,
            offsets.c.topic == outbox.c.topic,
            offsets.c.partition == outbox.c.partition,
        )
        is_unread = or_(outbox.c.position.is_(None), outbox.c.position > func.coalesce(offsets.c.position, 0))
        query = (
            select(outbox.c.topic, func.count())
            .select_from(outbox.outerjoin(offsets, read))
            .where(outbox.c.topic.in_(list(topics)), outbox.c.status != "dead", is_unread)
            .group_by(outbox.c.topic)
        )
        found = await self.database.read(lambda connection: connection.execute(query).all())
        return dict.fromkeys(topics, 0) | {row[0]: row[1] for row in found}

    async def replay(self, consumer: str, topics: Collection[str], since: Instant) -> None:
        """Whoever reads now loses its places, and finds them again where they are set."""

        def write(connection: Connection) -> None:
            of_consumer = and_(offsets.c.consumer == consumer, offsets.c.topic.in_(list(topics)))
            first = select(func.min(outbox.c.position)).where(
                outbox.c.topic == offsets.c.topic, outbox.c.sent_at >= since, outbox.c.position.is_not(None)
            )
            before = first.scalar_subquery() - 1
            # Also of one that has not come so far: its reader may be further than it has committed.
            back = {
                "position": case((before < offsets.c.position, before), else_=offsets.c.position),
                "lease_until": 0,
                "token": None,
                "owner": None,
            }
            connection.execute(update(offsets).where(of_consumer, before.is_not(None)).values(back))
            self.database.changes.poke(connection, PLACES_CHANGED)

        await self.database.write(write)

    async def trim(self, keep_ms: Millis) -> int:
        """The outbox is pruned as such."""
        return 0


class LocalReader(BusReader):
    """One consumer's reading of the table, in one process."""

    is_committed_within = True

    def __init__(self, bus: LocalBus, consumer: str, topics: Sequence[str], instance: str) -> None:
        self._bus = bus
        self._database = bus.database
        self._consumer = consumer
        self._topics = topics
        self._instance = instance
        self._token = uuid.uuid4().hex
        self._presence = f"consumer {consumer} {instance} {self._token}"
        self._owned: dict[Place, int] = {}
        """What is ours, and how far it was read."""
        self._handed_out: dict[Place, int] = {}
        """The last that was handed out of it."""
        self._done: dict[Place, int] = {}
        """How far it was committed, as far as is known."""
        self._share_of_all = 0
        """How many of the consumer's places are ours by right."""
        self._leaving: dict[Place, float] = {}
        """What somebody else should have, and until when it may wait for what was read of it."""
        self._paused: frozenset[Place] = frozenset()
        self._until = 0.0
        """When what is ours is somebody else's, if it is not renewed; by the monotonic clock."""
        self._heard: Subscription | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._is_woken = False
        self._may_have_more = True
        """Whether there may be something to read that nobody would be woken for."""

    # --- what is ours ---

    async def begin(self) -> None:
        self._heard = await self._database.changes.subscribe(PLACES_CHANGED, *map(_placed_in, self._topics))
        await self._share()
        self._keeper = asyncio.get_running_loop().create_task(self._keep(), name=f"rota-reader-{self._consumer}")

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        if self._heard is not None:
            self._heard.close()
        self._owned.clear()
        with suppress(StoreError):  # then the leases end by themselves
            await self._database.write(self._give_all_back)

    def places(self) -> Collection[Place]:
        return self._owned.keys() if asyncio.get_running_loop().time() < self._until else frozenset()

    def pause(self, places: Collection[Place]) -> None:
        self._paused = frozenset(places)
        self._may_have_more = True

    async def _keep(self) -> None:
        """Renew what is ours and share it with those who come and go, as long as this reads."""
        loop = asyncio.get_running_loop()
        every = self._bus.lease_ms / 3_000
        renewed_at = loop.time()
        while True:
            is_unsettled = bool(self._leaving) or len(self._owned) < self._share_of_all
            await asyncio.sleep(min(every, UNSETTLED_SECONDS) if is_unsettled else every)
            try:
                if loop.time() - renewed_at >= every or self._leaving or await self._database.read(self._any_free):
                    await self._share()
                    renewed_at = loop.time()
            except StoreError as error:
                # Whoever fetches meets the same trouble and reports it.
                log.debug("partitions not renewed", consumer=self._consumer, error=str(error))

    async def _share(self) -> None:
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        left = [place for place, until in self._leaving.items() if self._is_left(place, until, asked_at)]
        exchanged = await self._database.write(lambda connection: self._exchange(connection, left))
        held, taken, self._share_of_all = exchanged
        for place in taken:
            # Whatever was read of it before: it begins where the last one has stopped.
            self._owned.pop(place, None)
            self._handed_out.pop(place, None)
        self._owned = {place: max(self._owned.get(place, 0), done) for place, done in held.items()}
        self._done = held
        self._leaving = {place: until for place, until in self._leaving.items() if place in held}
        self._until = asked_at + self._bus.lease_ms / 1_000
        surplus = len(held) - len(self._leaving) - self._share_of_all
        for place in sorted(held.keys() - self._leaving.keys())[: max(0, surplus)]:
            self._leaving[place] = loop.time() + min(HAND_OVER_SECONDS, self._bus.lease_ms / 2_000)
        self._look_again()

    def _is_left(self, place: Place, until: float, now: float) -> bool:
        """Whether nothing that was read of it is open, or it has waited long enough."""
        return self._done.get(place, 0) >= self._handed_out.get(place, 0) or now >= until

    def _any_free(self, connection: Connection) -> bool:
        now = self._database.backend.dialect.now(connection)
        is_free = and_(offsets.c.consumer == self._consumer, offsets.c.lease_until <= now)
        return connection.execute(select(offsets.c.topic).where(is_free).limit(1)).first() is not None

    def _exchange(
        self, connection: Connection, given_back: Sequence[Place]
    ) -> tuple[dict[Place, int], set[Place], int]:
        """Renew, give back, take: what is ours now and how far it is done, what of it is new, and our fair share."""
        now = self._database.backend.dialect.now(connection)
        until = now + self._bus.lease_ms
        present = self._be_present(connection, now, until)
        mine = and_(offsets.c.consumer == self._consumer, offsets.c.token == self._token)
        for place in given_back:
            connection.execute(update(offsets).where(mine, _at(place)).values(owner=None, token=None, lease_until=0))
        connection.execute(update(offsets).where(mine).values(lease_until=until))
        rows = self._rows(connection)
        held = {Place(row.topic, row.partition): int(row.position) for row in rows if row.token == self._token}
        share = -(-len(rows) // present)
        free = [row for row in rows if row.token != self._token and row.lease_until <= now]
        taken: set[Place] = set()
        for row in free[: max(0, share - len(held))]:
            place = Place(row.topic, row.partition)
            if place not in given_back and self._take(connection, place, now, until):
                held[place] = int(row.position)
                taken.add(place)
        return held, taken, share

    def _rows(self, connection: Connection) -> Sequence[Any]:
        query = (
            select(offsets)
            .where(offsets.c.consumer == self._consumer, offsets.c.topic.in_(self._topics))
            .order_by(offsets.c.partition, offsets.c.topic)
        )
        rows = connection.execute(query).all()
        # There may be events in more partitions than a topic has today.
        highest = connection.execute(_HIGHEST_PARTITION, {"topics": self._topics}).scalar()
        wanted = range(max(self._bus.partitions, -1 if highest is None else highest + 1))
        missing = {Place(topic, at) for topic in self._topics for at in wanted}
        missing -= {Place(row.topic, row.partition) for row in rows}
        if not missing:
            return rows
        new = [
            {"consumer": self._consumer, "topic": place.topic, "partition": place.partition, "position": 0}
            for place in sorted(missing)
        ]
        connection.execute(insert_new(connection, offsets), new)
        return connection.execute(query).all()

    def _take(self, connection: Connection, place: Place, now: Instant, until: Instant) -> bool:
        is_free = and_(offsets.c.consumer == self._consumer, _at(place), offsets.c.lease_until <= now)
        mine = {"owner": self._instance, "token": self._token, "lease_until": until}
        return connection.execute(update(offsets).where(is_free).values(mine)).rowcount == 1

    def _be_present(self, connection: Connection, now: Instant, until: Instant) -> int:
        """Say that this instance is there, also with nothing of its own; how many of the consumer's are."""
        renewed = connection.execute(
            update(leases).where(leases.c.name == self._presence).values(until_at=until, holder=self._instance)
        )
        if not renewed.rowcount:
            row = {"name": self._presence, "holder": self._instance, "until_at": until}
            connection.execute(insert_new(connection, leases), [row])
        of_consumer = leases.c.name.startswith(f"consumer {self._consumer} ", autoescape=True)
        connection.execute(delete(leases).where(of_consumer, leases.c.until_at <= now))
        return connection.execute(select(func.count()).select_from(leases).where(of_consumer)).scalar_one()

    def _give_all_back(self, connection: Connection) -> None:
        mine = and_(offsets.c.consumer == self._consumer, offsets.c.token == self._token)
        connection.execute(update(offsets).where(mine).values(owner=None, token=None, lease_until=0))
        connection.execute(delete(leases).where(leases.c.name == self._presence))
        self._database.changes.poke(connection, PLACES_CHANGED)

    # --- reading ---

    async def fetch(self, limit: int, seconds: float) -> Sequence[Message]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        assert self._heard is not None, "whoever fetches has begun"
        while True:
            if not self._may_have_more and not self._is_woken:
                # What was placed since the last read has woken us; if that was lost, we look all the same in the end.
                await self._heard.wait(deadline - loop.time())
            found = await self._read(limit)
            if found or self._is_woken or loop.time() >= deadline:
                self._is_woken = False
                return found

    def wake(self) -> None:
        self._is_woken = True
        self._look_again()

    def _look_again(self) -> None:
        if self._heard is not None:
            self._heard.wake()

    async def _read(self, limit: int) -> list[Message]:
        by_topic: defaultdict[str, list[Place]] = defaultdict(list)
        for place in self.places():
            if place not in self._leaving and place not in self._paused:
                by_topic[place.topic].append(place)
        found: list[Message] = []
        # Until all of it is read: what fails is read again.
        self._may_have_more, is_read_up = True, True
        for topic, places in by_topic.items():
            some, is_read_up_here = await self._read_topic(topic, places, limit - len(found))
            is_read_up = is_read_up and is_read_up_here
            found += some
            if len(found) >= limit:
                return found
        self._may_have_more = not is_read_up
        return found

    async def _read_topic(self, topic: str, places: Sequence[Place], limit: int) -> tuple[list[Message], bool]:
        """What is new of these places, and whether that was all."""
        read = {place.partition: self._owned[place] for place in places}
        given = {"topic": topic, "partitions": list(read), "after": min(read.values()), "limit": limit}
        rows = await self._database.read(lambda connection: connection.execute(_LOG, given).all())
        found: list[Message] = []
        for row in rows:
            place = Place(topic, row.partition)
            if row.position > read[row.partition] and place in self._owned:
                self._handed_out[place] = row.position
                found.append(Message(place, row.position, row.key, headers_of(row), value_of_row(row)))
        for place in places:
            # Up to the last row nothing of any of these is left, whichever of them it was.
            if rows and place in self._owned:
                self._owned[place] = max(self._owned[place], rows[-1].position)
        return found, len(rows) < limit

    # --- how far it is done ---

    def commit_within(self, connection: Connection, done: Mapping[Place, Any]) -> None:
        mine = {"consumer": self._consumer, "token": self._token}
        rows = [
            {**mine, "topic": place.topic, "partition": place.partition, "position": position}
            for place, position in done.items()
        ]
        raise_many(connection, offsets, rows, by=("consumer", "topic", "partition", "token"), what="position")

    async def commit(self, done: Mapping[Place, Any]) -> None:
        if done:
            await self._database.grouped(lambda connection: self.commit_within(connection, done))


def _placed_in(topic: str) -> str:
    """What whoever reads a topic hears of when events were placed in it."""
    return f"events of {topic}"


def _at(place: Place) -> Any:
    return and_(offsets.c.topic == place.topic, offsets.c.partition == place.partition)


_ANY_NEW: Final = select(outbox.c.seq).where(_IS_NEW).limit(1)
_LAST_POSITION: Final = select(sequences.c.value).where(sequences.c.name == _POSITION)
_MOVE_ON: Final = (
    update(sequences).where(sequences.c.name == _POSITION).values(value=sequences.c.value + bindparam("placed"))
)
_new = (
    select(outbox.c.seq, func.row_number().over(order_by=outbox.c.seq).label("number"))
    .where(_IS_NEW)
    .order_by(outbox.c.seq)
    .limit(bindparam("limit"))
    .subquery("fresh")
)
_PLACE: Final = (
    update(outbox)
    .where(outbox.c.seq == _new.c.seq)
    .values(
        position=bindparam("last") + _new.c.number,
        status="sent",
        sent_at=bindparam("now"),
        lease_until=0,
        lease_token=None,
    )
    .returning(outbox.c.topic)
)
_HIGHEST_PARTITION: Final = select(func.max(outbox.c.partition)).where(
    outbox.c.topic.in_(bindparam("topics", expanding=True))
)
_LOG: Final = (
    select(outbox)
    .where(
        outbox.c.topic == bindparam("topic"),
        outbox.c.partition.in_(bindparam("partitions", expanding=True)),
        outbox.c.position > bindparam("after"),
    )
    .order_by(outbox.c.position)
    .limit(bindparam("limit"))
)
