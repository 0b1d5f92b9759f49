"""What people do about events, with their name on it: each needs the role, and leaves an entry in the audit log.

Every face goes through an `EventOperator`. What is done twice is harmless: a dead letter that was redriven is none any
more, an event that is known is not published again, and a flow that was resumed is left alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import Connection, delete, literal_column, select, update

from rota.access import Actor, Principal, Role
from rota.access.audit import Note
from rota.clock import Instant, Millis, isoformat
from rota.database import Database
from rota.database.tables.events import inbox, outbox
from rota.errors import CountChanged, InvalidInput, StoreError, StoreUnavailable
from rota.events.envelope import Event
from rota.events.handle import Callback, Handle
from rota.events.handles import TIMEOUT_MS, Handles
from rota.events.inbox import INBOX_CHANGED
from rota.events.outbox import OUTBOX_CHANGED
from rota.events.reading import DeadQuery, EventReading, find_consumer, known_consumers, topics_for

if TYPE_CHECKING:
    from rota.events.part import EventsPart

__all__ = ["MAX_PUBLISHED", "EventOperator", "Published", "Replayed"]

MAX_PUBLISHED: Final = 1_000
"""So many events may be published by one call from outside."""
BATCH: Final = 500
"""So many rows are changed by one transaction, so that nobody waits long for it."""

_IS_REFUSED: Final = outbox.c.status == literal_column("'dead'")


class Published(NamedTuple):
    """The ids of the events that were handed in, in their order, and how many of them are new."""

    event_ids: list[str]
    added: int


class Replayed(NamedTuple):
    """What is read again."""

    consumer: str
    topics: list[str]
    since: Instant

    def to_dict(self) -> dict[str, object]:
        return {"consumer": self.consumer, "topics": self.topics, "since": isoformat(self.since)}


class EventOperator(Actor):
    """Acts on the events of an app in somebody's name."""

    def __init__(self, part: EventsPart, principal: Principal, database: Callable[[], Awaitable[Database]]) -> None:
        super().__init__(principal, database)
        self._part = part

    # --- dead letters ---

    async def redrive(self, wanted: DeadQuery, *, expected: int | None = None) -> int:
        """Have dead letters tried again, with fresh counts; how many those were."""
        async with self._acting("event.redrive", wanted.words, "redrive dead letters") as note:
            changed = await self._change_dead(wanted, _try_again, expected)
            note.after = {"redriven": changed}
            return changed

    async def purge(self, wanted: DeadQuery, *, expected: int | None = None) -> int:
        """Remove dead letters for good; how many those were."""
        async with self._acting("event.purge", wanted.words, "purge dead letters") as note:
            changed = await self._change_dead(wanted, _forget, expected)
            note.after = {"purged": changed}
            return changed

    async def _change_dead(
        self, wanted: DeadQuery, change: Callable[[Database, Connection, Sequence[int]], int], expected: int | None
    ) -> int:
        reading = EventReading(await self.database())
        if expected is not None:
            _check_count(expected, await reading.count_dead(wanted), "dead letters")
        query, given = reading.dead(wanted)
        page = query.with_only_columns(inbox.c.seq).order_by(inbox.c.seq).limit(BATCH)

        def change_page(connection: Connection, after: int) -> tuple[int, Sequence[int]]:
            locked = reading.database.backend.dialect.locked(page.where(inbox.c.seq > after))
            seqs = connection.execute(locked, given).scalars().all()
            return (change(reading.database, connection, seqs) if seqs else 0), seqs

        return await _page_by_page(reading.database, change_page)

    # --- what the bus has refused ---

    async def retry_outbox(self, event_ids: Collection[str] | None = None) -> int:
        """Offer events to the bus again that it has refused, those named or all; how many those were."""
        async with self._acting("outbox.retry", _named(event_ids), "retry events of the outbox") as note:
            changed = await self._change_refused(event_ids, _offer_again)
            note.after = {"retried": changed}
            return changed

    async def purge_outbox(self, event_ids: Collection[str] | None = None) -> int:
        """Remove events that the bus has refused, those named or all; how many those were."""
        async with self._acting("outbox.purge", _named(event_ids), "purge events of the outbox") as note:
            changed = await self._change_refused(event_ids, _take_out)
            note.after = {"purged": changed}
            return changed

    async def _change_refused(
        self, event_ids: Collection[str] | None, change: Callable[[Database, Connection, Sequence[int]], int]
    ) -> int:
        database = await self.database()
        dialect = database.backend.dialect
        page = select(outbox.c.seq).where(_IS_REFUSED).order_by(outbox.c.seq).limit(BATCH)
        given: dict[str, object] = {}
        if event_ids is not None:
            page, given = page.where(dialect.among(outbox.c.event_id)), {"keys": dialect.keys(event_ids)}

        def change_page(connection: Connection, after: int) -> tuple[int, Sequence[int]]:
            seqs = connection.execute(dialect.locked(page.where(outbox.c.seq > after)), given).scalars().all()
            return (change(database, connection, seqs) if seqs else 0), seqs

        return await _page_by_page(database, change_page)

    # --- reading again ---

    async def replay(self, consumer: str, topics: Collection[str] | None, since: Instant) -> Replayed:
        """Have a consumer read again what was published since then. What it has done already is passed over."""
        async with self._acting("event.replay", consumer, "replay events") as note:
            found = find_consumer(await known_consumers(self._part), consumer)
            chosen = topics_for(found, topics)
            await (await self._part.events()).bus.replay(found.name, chosen, since)
            replayed = Replayed(found.name, chosen, since)
            note.after = replayed.to_dict()
            return replayed

    # --- publishing ---

    async def publish(self, *events: Event) -> Published:
        """Publish events, all of them or none. One whose id is known is not published again, whatever is in it."""
        async with self._acting("event.publish", _types(events), "publish events") as note:
            if not 1 <= len(events) <= MAX_PUBLISHED:
                raise InvalidInput(f"From 1 to {MAX_PUBLISHED:,} events are published at once; here are {len(events)}.")
            for event in events:
                event.checked()
            published = await self._publish(events)
            note.after = {"added": published.added, "event_ids": published.event_ids[:10]}
            return published

    async def _publish(self, events: Sequence[Event]) -> Published:
        kept = (await self._part.events()).outbox
        dialect = kept.database.backend.dialect
        named = [event.event_id for event in events if event.event_id is not None]
        if len(set(named)) != len(named):
            raise InvalidInput("Two of these events have the same event_id. Each event has its own.")
        query = select(outbox.c.event_id).where(dialect.among(outbox.c.event_id))

        def add(connection: Connection) -> Published:
            known = set(connection.execute(query, {"keys": dialect.keys(named)}).scalars()) if named else set[str]()
            added = iter(kept.add(connection, *(event for event in events if event.event_id not in known)))
            ids = [str(event.event_id) if event.event_id in known else next(added) for event in events]
            return Published(ids, len(events) - len(known))

        try:
            return await kept.database.write(add)
        except StoreError as error:
            if not named or isinstance(error, StoreUnavailable):
                raise
            # Somebody else may have published one of them in the same moment: then it is known now.
            return await kept.database.write(add)

    # --- flows that wait ---

    async def create_handle(
        self,
        *,
        correlation_id: str,
        expected: Sequence[str],
        expected_count: int,
        task_name: str,
        failed_types: Sequence[str] = (),
        flow_run_id: str | None = None,
        callback: Callback | Mapping[str, object] | None = None,
        timeout_ms: Millis = TIMEOUT_MS,
        user_id: str | None = None,
    ) -> Handle:
        """Have the events of a correlation id counted from now on, for a flow that is going to wait."""
        async with self._acting("handle.create", correlation_id, "create a handle") as note:
            handles = Handles(await self.database())
            handle_id = await handles.database.write(
                lambda connection: handles.create(
                    connection,
                    correlation_id=correlation_id,
                    expected=expected,
                    expected_count=expected_count,
                    task_name=task_name,
                    failed_types=failed_types,
                    flow_run_id=flow_run_id,
                    callback=callback,
                    timeout_ms=timeout_ms,
                    user_id=user_id,
                )
            )
            made = await handles.get(handle_id)
            note.after = {"id": made.id, "expected_count": made.expected_count}
            return made

    async def resume_handle(self, handle_id: str) -> Handle:
        """Let a flow go on with what has come so far, or call it again now. One that went on already is left alone."""
        async with self._acting("handle.resume", handle_id, "resume a flow") as note:
            handles = Handles(await self.database())
            before = await handles.get(handle_id)
            note.before = {"status": before.status}
            if before.status in ("resumed", "resuming"):
                return before
            after = await handles.database.write(lambda connection: handles.resume_by_hand(connection, handle_id))
            note.after = {"status": after.status}
            return after

    # --- shared ---

    @asynccontextmanager
    async def _acting(self, action: str, target: str, words: str) -> AsyncGenerator[Note]:
        """Refused or not, it is in the audit log."""
        async with self.recording(action, target) as note:
            self.need(Role.OPERATOR, words)
            yield note


def _try_again(database: Database, connection: Connection, seqs: Sequence[int]) -> int:
    fresh = {"status": "retrying", "attempts": 0, "crashes": 0, "lease_until": 0, "lease_token": None}
    now = database.backend.dialect.now(connection)
    changed = connection.execute(update(inbox).where(inbox.c.seq.in_(seqs)).values(next_at=now, **fresh))
    database.changes.poke(connection, INBOX_CHANGED)
    return changed.rowcount


def _forget(database: Database, connection: Connection, seqs: Sequence[int]) -> int:
    return connection.execute(delete(inbox).where(inbox.c.seq.in_(seqs))).rowcount


def _offer_again(database: Database, connection: Connection, seqs: Sequence[int]) -> int:
    fresh = {"status": "new", "attempts": 0, "next_at": 0, "lease_until": 0, "lease_token": None}
    again = update(outbox).where(outbox.c.seq.in_(seqs)).values(error=None, sent_at=None, **fresh)
    changed = connection.execute(again).rowcount
    database.changes.poke(connection, OUTBOX_CHANGED)
    return changed


def _take_out(database: Database, connection: Connection, seqs: Sequence[int]) -> int:
    return connection.execute(delete(outbox).where(outbox.c.seq.in_(seqs))).rowcount


async def _page_by_page(database: Database, change_page: Callable[[Connection, int], tuple[int, Sequence[int]]]) -> int:
    """Row by row in their order, each once: one that fails again meanwhile is not met again."""
    changed, after = 0, 0
    while True:
        more, seqs = await database.write(lambda connection, after=after: change_page(connection, after))
        changed += more
        if len(seqs) < BATCH:
            return changed
        after = seqs[-1]


def _named(event_ids: Collection[str] | None) -> str:
    return "all" if event_ids is None else ", ".join(event_ids)


def _types(events: Sequence[Event]) -> str:
    return ", ".join(dict.fromkeys(event.event_type for event in events))


def _check_count(expected: int, found: int, what: str) -> None:
    if expected != found:
        raise CountChanged(
            f"{expected} {what} were confirmed, but {found} match now. Nothing was changed;"
            " look again, and confirm the new number.",
            found,
        )
