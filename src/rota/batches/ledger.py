"""What one transaction does to batches, gathered and written together: many results cost a few statements.

Whatever is changed here is held by the transaction, and is read from here, not from the database, until it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection

from rota.batches.batch import Batch, Subtask, SubtaskStatus, SubtaskStep, moved
from rota.batches.rows import BatchRows
from rota.clock import Instant
from rota.events.envelope import Event
from rota.events.outbox import Outbox

__all__ = ["Ledger"]


class Ledger:
    """Open as long as its transaction; `write` ends it."""

    def __init__(self, rows: BatchRows, outbox: Outbox, connection: Connection) -> None:
        self._rows = rows
        self._outbox = outbox
        self._connection = connection
        self.now: Instant = rows.now(connection)
        self._batches: dict[str, Batch] = {}
        self._subtasks: dict[str, Subtask] = {}
        self._names: dict[str, list[str]] = {}
        self._saved: dict[str, Batch] = {}
        self._moved: dict[str, Subtask] = {}
        self._items: list[Mapping[str, Any]] = []
        self._told: list[dict[str, Any]] = []
        self._new: list[Mapping[str, Any]] = []
        self._events: list[Event] = []
        self._tells_queue = False

    # --- what is held ---

    def hold(self, subtask_ids: Sequence[str]) -> None:
        """Hold these subtasks with their batches, and know the names that are there."""
        for batch, subtask in self._rows.locked_pairs(self._connection, subtask_ids):
            self._batches[batch.id] = batch
            self._subtasks[subtask.id] = subtask
        self._names = self._rows.names_of(self._connection, [one for one in self._batches.values() if one.items])

    def pair(self, subtask_id: str) -> tuple[Batch, Subtask] | None:
        """A subtask with its batch, as they are by now; None if it is gone."""
        subtask = self._subtasks.get(subtask_id)
        return None if subtask is None else (self._batches[subtask.batch_id], subtask)

    def names(self, batch: Batch) -> list[str]:
        """The names that an item of the batch must not be like."""
        if batch.distinct == "session":
            self._write_rows()
            return self._rows.names(self._connection, batch)
        return self._names.setdefault(batch.id, [])

    def lost(self, batch: Batch) -> int:
        """How many items its failed subtasks were to bring."""
        if not batch.failed:
            return 0
        self._write_rows()
        return self._rows.lost(self._connection, batch.id)

    # --- what is changed ---

    def save(self, batch: Batch) -> Batch:
        self._batches[batch.id] = self._saved[batch.id] = batch
        return batch

    def move(self, subtask: Subtask, step: SubtaskStep, **values: Any) -> Subtask:
        """Take a subtask one step further."""
        after = moved(subtask, step, **values)
        self._subtasks[after.id] = self._moved[after.id] = after
        return after

    def add_items(self, batch: Batch, rows: Sequence[Mapping[str, Any]], kept: Iterable[str]) -> None:
        self._items += rows
        self._names.setdefault(batch.id, []).extend(kept)

    def add_subtasks(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._new += rows
        self._tells_queue = True

    def tell(self, batch: Batch, told: Iterable[tuple[str, object]]) -> Batch:
        """Tell what has happened to a batch, in order; the batch with the number of the last one."""
        number = batch.events
        for event, data in told:
            number += 1
            text = msgspec.json.encode(data).decode()
            self._told.append({"batch_id": batch.id, "number": number, "event": event, "data": text, "at": self.now})
        return replace(batch, events=number)

    def publish(self, event: Event) -> None:
        self._events.append(event)

    def drop_open(self, batch: Batch) -> list[Subtask]:
        """Drop what is open of a batch that ends."""
        if batch.done + batch.failed >= batch.expected:
            return []
        self._write_rows()
        dropped = [
            self.move(subtask, SubtaskStep.DROP, ended_at=self.now, queue_told=0)
            for subtask in self._rows.open_subtasks(self._connection, batch.id)
        ]
        self._tells_queue = self._tells_queue or bool(dropped)
        return dropped

    # --- writing ---

    def write(self) -> None:
        """All of it; whoever waits for something of a batch looks again, once this is committed."""
        self._write_rows()
        if self._events:
            self._outbox.add(self._connection, *self._events)
            self._events.clear()
        if self._tells_queue:
            self._rows.tell_queue(self._connection)
        self._rows.tell(self._connection)

    def _write_rows(self) -> None:
        self._rows.write(
            self._connection,
            batches=list(self._saved.values()),
            subtasks=list(self._moved.values()),
            new_subtasks=self._new,
            items=self._items,
            events=self._told,
        )
        for gathered in (self._saved, self._moved):
            gathered.clear()
        for gathered in (self._new, self._items, self._told):
            gathered.clear()

    @staticmethod
    def is_current(subtask: Subtask, attempt: int) -> bool:
        """Whether an attempt is the one that is waited for; 0: whichever that is."""
        return subtask.status is SubtaskStatus.DISPATCHED and attempt in (0, subtask.attempt)
