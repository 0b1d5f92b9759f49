"""The rows of batches: read, written and numbered, within a transaction of the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Executable, Row, and_, bindparam, func, literal_column, select

from rota.batches.batch import Batch, BatchStatus, Subtask, SubtaskStatus, unknown_batch
from rota.clock import Instant
from rota.database import Database
from rota.database.many import as_document, given_rows, insert_many, update_many
from rota.database.tables import batches as tables
from rota.database.tables.batches import batch_events, batch_items, batch_subtasks, batches

__all__ = ["BATCHES_CHANGED", "QUEUE_TO_TELL", "BatchEvent", "BatchRows", "batch_of", "subtask_of"]

BATCHES_CHANGED: Final = "batches"
"""The topic of whoever waits for a result, or shows what has come."""
QUEUE_TO_TELL: Final = "batch queue"
"""The topic of whoever tells the queue which subtasks it is to take on, or to drop."""

_b, _s, _i, _e = batches.c, batch_subtasks.c, batch_items.c, batch_events.c
_BATCH: Final = select(batches).where(_b.id == bindparam("the_id"))
# The batch, then the subtask: whoever holds both takes them in this order.
_PAIR: Final = (
    select(
        *(column.label(f"b_{column.name}") for column in batches.columns),
        *(column.label(f"s_{column.name}") for column in batch_subtasks.columns),
    )
    .select_from(batches)
    .join(batch_subtasks, _s.batch_id == _b.id)
    .order_by(_b.id, _s.id)
)
_SUBTASKS_OF: Final = select(batch_subtasks).where(_s.batch_id == bindparam("of_batch")).order_by(_s.round, _s.index)
_LOST: Final = select(func.coalesce(func.sum(_s.count), 0)).where(
    _s.batch_id == bindparam("of_batch"), _s.status == literal_column("'failed'")
)
_OPEN_OF: Final = select(batch_subtasks).where(
    _s.batch_id == bindparam("of_batch"), _s.status.in_([literal_column("'queued'"), literal_column("'dispatched'")])
)
_KEPT: Final = _i.outcome == literal_column("'kept'")
_NAMES: Final = select(_i.name).where(_i.batch_id == bindparam("of_batch"), _KEPT).order_by(_i.number)
_NAMES_OF: Final = select(_i.batch_id, _i.name).where(_KEPT).order_by(_i.batch_id, _i.number)
_NAMES_OF_SESSION: Final = (
    select(_i.name)
    .join(batches, _b.id == _i.batch_id)
    .where(_b.session_id == bindparam("of_session"), _b.type == bindparam("of_type"), _KEPT)
    .order_by(_i.batch_id, _i.number)
)


@cache
def _events_after(database: str) -> Executable:
    seen = given_rows(database, batch_events, ("batch_id", "number"))
    later = and_(_e.batch_id == seen.c.batch_id, _e.number > seen.c.number)
    columns = _e.batch_id, _e.number, _e.event, _e.data, _e.at
    query = select(*columns).select_from(seen.join(batch_events, later))
    return query.order_by(_e.batch_id, _e.number).limit(bindparam("most"))


# Written whole, so that one statement does for all: making one takes longer than running it.
_CHANGING: Final = (
    "status",
    "reason",
    "expected",
    "done",
    "failed",
    "items",
    "duplicates",
    "invalid",
    "late",
    "rounds",
    "tokens_in",
    "tokens_out",
    "events",
    "numbers",
    "first_at",
    "ended_at",
)
_MOVING: Final = ("status", "errors", "queue_told", "ended_at", "wait_ms", "error_class", "error", "kept")


def _named(what: Batch | Subtask, names: Sequence[str]) -> dict[str, Any]:
    values = {name: getattr(what, name) for name in names}
    return {**values, "id": what.id, "status": what.status.value}


class BatchEvent(NamedTuple):
    """One thing that was told about a batch."""

    number: int
    event: str
    data: str
    """JSON."""
    at: Instant


def batch_of(row: Row[Any]) -> Batch:
    """The batch in a row, whatever else it has."""
    return Batch(**_values(row, Batch.__struct_fields__, BatchStatus))


def subtask_of(row: Row[Any]) -> Subtask:
    """The subtask in a row, whatever else it has."""
    return Subtask(**_values(row, Subtask.__struct_fields__, SubtaskStatus))


def _values(row: Row[Any], names: Sequence[str], status: type[StrEnum], prefix: str = "") -> dict[str, Any]:
    # By its mapping, as documented: `count` and `index` of a row are methods of a tuple.
    mapping = row._mapping  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return {**{name: mapping[prefix + name] for name in names}, "status": status(mapping[f"{prefix}status"])}


def _pairs(rows: Iterable[Any]) -> list[tuple[Batch, Subtask]]:
    return [
        (
            Batch(**_values(row, Batch.__struct_fields__, BatchStatus, "b_")),
            Subtask(**_values(row, Subtask.__struct_fields__, SubtaskStatus, "s_")),
        )
        for row in rows
    ]


class BatchRows:
    """Those of one database. Whoever changes a batch has its row locked, so what is told about it has an order."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._dialect = database.backend.dialect
        self._locked_batch = self._dialect.locked(_BATCH)
        self._locked_open = self._dialect.locked(_OPEN_OF)
        self._locked_pairs = self._dialect.locked(_PAIR.where(self._dialect.among(_s.id)))
        held_alone = _PAIR.where(self._dialect.among(_s.id)).order_by(None).order_by(_s.id)
        self._pairs_of_held = self._dialect.locked(held_alone, of=batch_subtasks)
        self._names_of = _NAMES_OF.where(self._dialect.among(_i.batch_id))

    def now(self, connection: Connection) -> Instant:
        return self._dialect.now(connection)

    def tell(self, connection: Connection) -> None:
        """Whoever waits for something of a batch looks again, once this is committed."""
        self.database.changes.poke(connection, BATCHES_CHANGED)

    # --- a batch ---

    def batch(self, connection: Connection, batch_id: str) -> Batch:
        row = connection.execute(_BATCH, {"the_id": batch_id}).first()
        if row is None:
            raise unknown_batch(batch_id)
        return batch_of(row)

    def locked_batch(self, connection: Connection, batch_id: str) -> Batch | None:
        """The batch, held until the transaction ends; None if it is gone."""
        row = connection.execute(self._locked_batch, {"the_id": batch_id}).first()
        return None if row is None else batch_of(row)

    # --- its subtasks ---

    def locked_pairs(self, connection: Connection, ids: Sequence[str]) -> list[tuple[Batch, Subtask]]:
        """Subtasks with their batches, held until the transaction ends; those that are gone are left out."""
        return _pairs(connection.execute(self._locked_pairs, {"keys": self._dialect.keys(ids)}).all())

    def pairs_of_held(self, connection: Connection, ids: Sequence[str]) -> list[tuple[Batch, Subtask]]:
        """The same, with only the subtasks held: whoever collects results of their batches need not wait."""
        return _pairs(connection.execute(self._pairs_of_held, {"keys": self._dialect.keys(ids)}).all())

    def subtasks(self, connection: Connection, batch_id: str) -> list[Subtask]:
        return [subtask_of(row) for row in connection.execute(_SUBTASKS_OF, {"of_batch": batch_id})]

    def open_subtasks(self, connection: Connection, batch_id: str) -> list[Subtask]:
        return [subtask_of(row) for row in connection.execute(self._locked_open, {"of_batch": batch_id})]

    def lost(self, connection: Connection, batch_id: str) -> int:
        """How many items its failed subtasks were to bring."""
        return int(connection.execute(_LOST, {"of_batch": batch_id}).scalar_one())

    def tell_queue(self, connection: Connection) -> None:
        """Somebody looks for subtasks that the queue does not know the state of, once this is committed."""
        self.database.changes.poke(connection, QUEUE_TO_TELL)

    # --- its items and events ---

    def names(self, connection: Connection, batch: Batch) -> list[str]:
        """The names that an item of the batch must not be like."""
        if batch.distinct == "session":
            given = {"of_session": batch.session_id, "of_type": batch.type}
            found = connection.execute(_NAMES_OF_SESSION, given)
        else:
            found = connection.execute(_NAMES, {"of_batch": batch.id})
        return list(found.scalars())

    def names_of(self, connection: Connection, of: Sequence[Batch]) -> dict[str, list[str]]:
        """The names that are there, of each batch, the newest last."""
        found: dict[str, list[str]] = {batch.id: [] for batch in of}
        if found:
            for row in connection.execute(self._names_of, {"keys": self._dialect.keys(list(found))}):
                found[row.batch_id].append(row.name)
        return found

    def write(
        self,
        connection: Connection,
        *,
        batches: Sequence[Batch] = (),
        subtasks: Sequence[Subtask] = (),
        new_subtasks: Sequence[Mapping[str, Any]] = (),
        items: Sequence[Mapping[str, Any]] = (),
        events: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """What has changed and is held, and what is new: a statement for each kind, however many there are."""
        insert_many(connection, batch_items, items)
        update_many(connection, batch_subtasks, [_named(one, _MOVING) for one in subtasks])
        insert_many(connection, batch_subtasks, new_subtasks)
        insert_many(connection, batch_events, events)
        update_many(connection, tables.batches, [_named(one, _CHANGING) for one in batches])

    @staticmethod
    def events_after(connection: Connection, seen: Mapping[str, int], most: int) -> list[tuple[str, BatchEvent]]:
        """What was told of batches after the number that is known of each, with the batch; so many at most."""
        rows = [{"batch_id": batch_id, "number": number} for batch_id, number in seen.items()]
        given = {"rows": as_document(rows), "most": most}
        found = connection.execute(_events_after(connection.dialect.name), given)
        return [(batch_id, BatchEvent(*told)) for batch_id, *told in found]
