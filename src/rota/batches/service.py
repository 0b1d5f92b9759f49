"""Everything that can be done with batches.

batch = await app.batches.start("location_name", 50, style="norse, by the sea")
async for item in batch:            # the first ones at once, the rest as they come
    print(item.name)
result = await batch.result()
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec
from sqlalchemy import Connection, Select, func, select

from rota.access import Principal
from rota.batches.accepting import Asked
from rota.batches.batch import Batch, BatchStatus, End, Subtask, held, unknown_batch
from rota.batches.generators.base import Item
from rota.batches.limits import per_minute
from rota.batches.offering import identities_of
from rota.batches.request import BatchesFull, BatchRequest
from rota.batches.rows import BatchEvent, batch_of
from rota.batches.switches import DEGRADED, FROZEN, restore, switch_on, switches_on
from rota.batches.work import BatchWork
from rota.clock import Instant, isoformat, parse_duration
from rota.core.task import Identity
from rota.database.tables.batches import batch_items, batches
from rota.errors import InvalidInput, LimitExceeded, RotaError, StoreUnavailable
from rota.events.tracing import current_trace
from rota.logs import get_logger
from rota.runtime.signals import Duration
from rota.stores.base import DEFAULT_PAGE, Page, page_of
from rota.stores.limits import check_page

if TYPE_CHECKING:
    from rota.batches.part import BatchesPart

__all__ = ["BatchHandle", "BatchItem", "BatchQuery", "BatchResult", "Batches", "Switches"]

LOCAL: Final = "app"
"""The owner of what an app asks for itself."""
_ITEMS: Final = frozenset({"kept", "duplicate", "invalid"})

log = get_logger("rota.batches")


class BatchItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item as it came: kept, or dropped with the twin or the reason."""

    number: int
    name: str
    fields: dict[str, Any]
    outcome: str
    twin: str | None
    subtask_id: str
    at: Instant

    def to_dict(self) -> dict[str, Any]:
        return {**msgspec.structs.asdict(self), "at": isoformat(self.at)}


class BatchResult(NamedTuple):
    """What has come of a batch."""

    batch: Batch
    items: list[Item]

    @property
    def is_complete(self) -> bool:
        """Whether all came that was asked for."""
        return self.batch.shortfall == 0


class BatchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which batches: whatever is None does not matter."""

    status: str | None = None
    type: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    owner: str | None = None


class Switches(NamedTuple):
    """What an operator has set."""

    is_frozen: bool
    is_degraded: bool
    open: int
    """Batches that are not over yet."""

    def to_dict(self) -> dict[str, object]:
        return {"frozen": self.is_frozen, "degraded": self.is_degraded, "open": self.open}


class BatchHandle:
    """One batch, for whoever asked for it."""

    def __init__(self, batches: Batches, batch: Batch, *, is_new: bool = True, handle_id: str | None = None) -> None:
        self._batches = batches
        self.id = batch.id
        self.accepted = batch
        """The batch as it was when it was asked for."""
        self.is_new = is_new
        """False: the same request had been accepted before, under the same idempotency key."""
        self.handle_id = handle_id

    def __aiter__(self) -> AsyncIterator[Item]:
        """The items as they come, until the end of the batch."""
        return self.items()

    async def items(self) -> AsyncGenerator[Item]:
        async for event in self._batches.follow(self.id):
            if event.event == "item":
                data: dict[str, Any] = msgspec.json.decode(event.data)
                data.pop("number", None)
                yield Item(data.pop("name"), data)

    async def events(self, after: int = 0) -> AsyncGenerator[BatchEvent]:
        """What is told about it, after a number."""
        async for event in self._batches.follow(self.id, after):
            yield event

    async def result(self) -> BatchResult:
        """Wait for its end: how it ended, and all of its items."""
        async for _ in self._batches.follow(self.id):
            pass
        items: list[Item] = []
        cursor = None
        while True:
            page = await self._batches.items(self.id, limit=1_000, cursor=cursor)
            items += [Item(one.name, one.fields) for one in page.items]
            if (cursor := page.cursor) is None:
                return BatchResult(await self._batches.get(self.id), items)

    async def status(self) -> Batch:
        """How it stands now."""
        return await self._batches.get(self.id)

    async def pause(self) -> Batch:
        return await self._batches.pause(self.id)

    async def resume(self) -> Batch:
        return await self._batches.resume(self.id)

    async def cancel(self) -> Batch:
        return await self._batches.cancel(self.id)

    def __repr__(self) -> str:
        return f"<batch {self.id}>"


class Batches:
    """The batches of one app."""

    def __init__(self, part: BatchesPart) -> None:
        self._part = part

    # --- asking for one ---

    async def start(
        self,
        type: str,  # noqa: A002 - the word of requests
        count: int,
        *,
        style: str | Mapping[str, Any] = "",
        session_id: str | None = None,
        user_id: str | None = None,
        priority: int = 5,
        seed: int | None = None,
        distinct: Literal["batch", "session"] = "batch",
        deadline: Duration | None = None,
        budget_tokens: int | None = None,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
        resume: Mapping[str, Any] | None = None,
        owner: str = LOCAL,
    ) -> BatchHandle:
        """Ask for a number of items. When this returns, nothing of it can be lost any more."""
        request = BatchRequest(
            type=type,
            count=count,
            style=style if isinstance(style, str) else dict(style),
            session_id=session_id,
            user_id=user_id,
            priority=priority,
            seed=seed,
            distinct=distinct,
            deadline_ms=None if deadline is None else parse_duration(deadline, what="deadline"),
            budget_tokens=budget_tokens,
            idempotency_key=idempotency_key,
            correlation_id=correlation_id,
            resume=resume,
        )
        return await self.ask(request, owner=owner)

    async def ask(self, request: BatchRequest, *, owner: str = LOCAL, by: Principal | None = None) -> BatchHandle:
        """The same with a request that is made already; in the name of whoever it is `by`, in the audit log."""
        part = self._part
        item_type = request.checked(part.types, part.config.max_count)
        store = await part.host.ready()
        await part.host.database_of(part.name, settle=True)
        work = await part.work()
        if request.idempotency_key is not None:
            # Whoever asks again has had their share for it already.
            known = await work.database.read(lambda connection: work.accepting.known(connection, request, owner))
            if known is not None:
                return BatchHandle(self, known, is_new=False)
        await work.room.check()
        await self._take_share(owner, request)
        accepted = await work.accepting.accept(Asked(request, item_type, owner, by, current_trace()))
        part.open_gates()
        work.room.use(len(accepted.subtasks))
        if accepted.subtasks:
            try:
                await work.offering.offer(store, accepted.batch, accepted.subtasks)
            except RotaError as error:
                # It is accepted, whatever the queue says: the keeper offers it when the store is back, has room, or
                # has heard of its type from the first worker.
                log.warning("batch waits for the queue", batch_id=accepted.batch.id, error=str(error))
        return BatchHandle(self, accepted.batch, is_new=accepted.is_new, handle_id=accepted.handle_id)

    async def _take_share(self, owner: str, request: BatchRequest) -> None:
        """Refuse what an owner has had its share of, before anything is written."""
        most = self._part.config.owner_items_per_minute
        if most is None:
            return
        if request.count > most:
            raise LimitExceeded(
                f"count is {request.count}; one owner may ask for {most:,} items a minute"
                " (batches.owner_items_per_minute). Ask for fewer."
            )
        limit = per_minute(most, most)
        store = await self._part.host.ready()
        taken = await store.take(f"batches:{owner}", request.count, rate=most / 60, burst=limit.burst)
        if not taken.granted:
            raise BatchesFull(
                f"{owner!r} has asked for its {most:,} items a minute (batches.owner_items_per_minute).",
                taken.retry_after_ms / 1_000,
            )

    # --- looking ---

    async def get(self, batch_id: str) -> Batch:
        """A batch as it stands."""
        work = await self._part.work()
        return await work.database.read(lambda connection: work.rows.batch(connection, batch_id))

    async def handle(self, batch_id: str) -> BatchHandle:
        """The handle of a batch that was asked for before."""
        return BatchHandle(self, await self.get(batch_id), is_new=False)

    async def list(
        self, query: BatchQuery | None = None, limit: int = DEFAULT_PAGE, cursor: str | None = None
    ) -> Page[Batch]:
        """A page of batches, newest first."""
        check_page(limit)
        work = await self._part.work()
        statement = _filtered(query or BatchQuery()).order_by(batches.c.id.desc()).limit(limit + 1)
        if cursor is not None:
            statement = statement.where(batches.c.id < cursor)
        rows = await work.database.read(lambda connection: connection.execute(statement).all())
        return page_of([batch_of(row) for row in rows], limit, lambda batch: batch.id)

    async def items(
        self, batch_id: str, *, outcome: str = "kept", limit: int = DEFAULT_PAGE, cursor: str | None = None
    ) -> Page[BatchItem]:
        """A page of its items in the order in which they came; `outcome` also duplicate, invalid or all."""
        check_page(limit)
        if outcome not in (*_ITEMS, "all"):
            raise InvalidInput(f"outcome is {outcome!r}. Use kept, duplicate, invalid or all.")
        work = await self._part.work()
        after = _number(cursor)

        def read(connection: Connection) -> Sequence[Any]:
            work.rows.batch(connection, batch_id)
            statement = select(batch_items).where(batch_items.c.batch_id == batch_id, batch_items.c.number > after)
            if outcome != "all":
                statement = statement.where(batch_items.c.outcome == outcome)
            return connection.execute(statement.order_by(batch_items.c.number).limit(limit + 1)).all()

        found = [_item(row) for row in await work.database.read(read)]
        return page_of(found, limit, lambda item: str(item.number))

    async def subtasks(self, batch_id: str) -> list[Subtask]:
        """Its subtasks, round by round."""
        work = await self._part.work()

        def read(connection: Connection) -> list[Subtask]:
            work.rows.batch(connection, batch_id)
            return work.rows.subtasks(connection, batch_id)

        return await work.database.read(read)

    async def follow(self, batch_id: str, after: int = 0) -> AsyncGenerator[BatchEvent]:
        """What is told about a batch, after a number, until its end."""
        work = await self._part.work()
        async for event in work.feed.follow(batch_id, after):
            if event is not None:
                yield event

    # --- changing one ---

    async def pause(self, batch_id: str) -> Batch:
        """Begin nothing more of it; what agents have begun comes in."""
        work = await self._part.work()
        batch = await work.database.write(partial(_set_paused, work=work, batch_id=batch_id, is_paused=True))
        await self._tell(work, batch, "pause")
        return batch

    async def resume(self, batch_id: str) -> Batch:
        """Go on."""
        work = await self._part.work()
        batch = await work.database.write(partial(_set_paused, work=work, batch_id=batch_id, is_paused=False))
        await self._tell(work, batch, "resume")
        return batch

    async def cancel(self, batch_id: str) -> Batch:
        """End it now; what has come stays. Of one that has ended: how it ended."""
        work = await self._part.work()

        def write(connection: Connection) -> tuple[Batch, list[Subtask]]:
            batch = work.rows.locked_batch(connection, batch_id)
            if batch is None:
                raise unknown_batch(batch_id)
            if not batch.status.is_open:
                return batch, []
            ledger = work.ending.ledger(connection)
            cancelled = work.ending.end(ledger, batch, End(BatchStatus.CANCELLED, None))
            ledger.write()
            return cancelled

        batch, dropped = await work.database.write(write)
        if dropped:
            try:
                store = await self._part.host.ready()
                await store.cancel(identities_of(dropped))
            except StoreUnavailable as error:
                # It is cancelled: the keeper tells the queue when that is back.
                log.warning("cancelled batch waits for the queue", batch_id=batch.id, error=str(error))
        return batch

    async def _tell(self, work: BatchWork, batch: Batch, verb: Literal["pause", "resume"]) -> None:
        """The queue hears of it, too. What it has lost meanwhile is offered by the keeper."""
        store = await self._part.host.ready()
        open_ = [one for one in await self.subtasks(batch.id) if one.status.is_open]
        identities: list[Identity] = identities_of(open_)
        if identities:
            await (store.pause(identities) if verb == "pause" else store.resume(identities))

    # --- the way back ---

    async def freeze(self, by: str = LOCAL) -> Switches:
        """Take no new batches on; those that are there go on."""
        return await self._switch(FROZEN, by)

    async def degrade(self, by: str = LOCAL) -> Switches:
        """Make each new batch one large call, without subtasks."""
        return await self._switch(DEGRADED, by)

    async def restore(self) -> Switches:
        """Take batches on as usual."""
        work = await self._part.work()
        await work.database.write(restore)
        return await self.switches()

    async def _switch(self, name: str, by: str) -> Switches:
        work = await self._part.work()
        await work.database.write(lambda c: switch_on(c, name, by, work.rows.now(c)))
        return await self.switches()

    async def switches(self) -> Switches:
        """What an operator has set, and how many batches are open."""
        work = await self._part.work()

        def read(connection: Connection) -> Switches:
            on = switches_on(connection)
            open_ = batches.c.status.in_([BatchStatus.RUNNING.value, BatchStatus.PAUSED.value])
            count = connection.execute(select(func.count()).select_from(batches).where(open_)).scalar_one()
            return Switches(FROZEN in on, DEGRADED in on, int(count))

        return await work.database.read(read)


def _set_paused(connection: Connection, work: BatchWork, batch_id: str, is_paused: bool) -> Batch:
    batch = work.rows.locked_batch(connection, batch_id)
    if batch is None:
        raise unknown_batch(batch_id)
    after = held(batch, is_paused=is_paused)
    if after.status is batch.status:
        return batch
    work.rows.write(connection, batches=[after])
    work.rows.tell_queue(connection)
    return after


def _filtered(query: BatchQuery) -> Select[Any]:
    statement = select(batches)
    for name in ("status", "type", "session_id", "user_id", "owner"):
        value = getattr(query, name)
        if value is not None:
            statement = statement.where(batches.c[name] == value)
    return statement


def _item(row: Any) -> BatchItem:
    return BatchItem(
        number=row.number,
        name=row.name,
        fields=msgspec.json.decode(row.fields),
        outcome=row.outcome,
        twin=row.twin,
        subtask_id=row.subtask_id,
        at=row.at,
    )


def _number(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise InvalidInput(f"The cursor {cursor[:64]!r} is none of ours. Take it from the last page, unchanged.")
    return int(cursor)
