"""The turn of a subtask: an agent is asked for it, and its row says so, in one transaction for all whose turn it is.

What is handed to a bus has left the priority queue. So the task of a subtask runs until its result is there: the engine
keeps its lease, its retries, its place and its permits for all of that time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, update

from rota.batches.batch import Batch, BatchStatus, Subtask, SubtaskStatus, SubtaskStep, moved
from rota.batches.messages import requested
from rota.batches.rows import BatchRows
from rota.clock import Instant
from rota.database.many import update_many
from rota.database.tables.batches import batch_subtasks, batches
from rota.events.envelope import Event, uuid7
from rota.events.outbox import Outbox
from rota.group_commit import GroupCommit, write_together

__all__ = ["MAX_AVOIDED", "Dispatching", "Turn", "TurnKind"]

MAX_AVOIDED: Final = 200
"""So many of the names that are there an agent is told to avoid, the newest."""

_ONE_FAILED_LESS: Final = update(batches).where(batches.c.id == bindparam("b_id")).values(failed=batches.c.failed - 1)


class TurnKind(StrEnum):
    """What a subtask's turn has come to."""

    WAIT = "wait"
    """An agent has been asked, now or before."""
    DONE = "done"
    OVER = "over"
    """Nobody wants it any more."""
    PAUSED = "paused"


class Turn(NamedTuple):
    """What a subtask's turn has come to, and why."""

    kind: TurnKind
    why: str = ""


class Dispatching:
    """Asks agents."""

    def __init__(self, rows: BatchRows, outbox: Outbox, chance: Callable[[int], bytes] = os.urandom) -> None:
        self._rows = rows
        self._outbox = outbox
        self._chance = chance
        self._group: GroupCommit[str, Turn] = GroupCommit(
            partial(write_together, self._write),
            len,
            in_flight=rows.database.backend.in_flight,
            patience=rows.database.call_timeout,
        )

    async def take_turn(self, subtask_id: str) -> Turn:
        """A subtask's turn has come. Those of one moment share a transaction."""
        (turn,) = await self._group.submit([subtask_id])
        return turn

    async def close(self) -> None:
        await self._group.drain()

    async def _write(self, ids: list[str]) -> list[Turn]:
        return await self._rows.database.shared(partial(self.take_turns, ids=ids))

    def take_turns(self, connection: Connection, ids: Sequence[str]) -> list[Turn]:
        """Ask for all that are queued; say of each how it stands."""
        pairs = self._rows.pairs_of_held(connection, ids)
        subtasks = {subtask.id: subtask for _, subtask in pairs}
        by_id = {batch.id: batch for batch, _ in pairs}
        now = self._rows.now(connection)
        turns: dict[str, Turn] = {}
        asking: list[tuple[Batch, Subtask]] = []
        for id_ in ids:
            subtask = subtasks.get(id_)
            batch = None if subtask is None else by_id.get(subtask.batch_id)
            turns[id_] = turn = _turn(subtask, batch)
            if subtask is None or batch is None or turn.kind is not TurnKind.WAIT:
                continue
            if subtask.status is not SubtaskStatus.DISPATCHED:
                asking.append((batch, self._revived(connection, subtask)))
                del subtasks[id_]  # named twice, it is asked for once
        self.ask(connection, asking, now)
        return [turns[id_] for id_ in ids]

    def _revived(self, connection: Connection, subtask: Subtask) -> Subtask:
        """A dead one whose task was redriven begins anew; its batch no longer counts it as failed."""
        if subtask.status is not SubtaskStatus.FAILED:
            return subtask
        connection.execute(_ONE_FAILED_LESS, {"b_id": subtask.batch_id})
        return moved(subtask, SubtaskStep.REVIVE, errors=0)

    def ask(self, connection: Connection, asking: Sequence[tuple[Batch, Subtask]], now: Instant) -> None:
        """Dispatch subtasks that are queued, and held: rows and events together."""
        if not asking:
            return
        names = self._rows.names_of(connection, [batch for batch, _ in asking if batch.items])
        avoided = {batch_id: found[-MAX_AVOIDED:] for batch_id, found in names.items()}
        events: list[Event] = []
        rows: list[dict[str, Any]] = []
        for batch, subtask in asking:
            sent = moved(subtask, SubtaskStep.DISPATCH, attempt=subtask.attempt + 1)
            event_id = uuid7(now, self._chance(10))
            events.append(requested(batch, sent, avoided.get(batch.id, []), event_id))
            rows.append(
                {
                    "id": sent.id,
                    "status": sent.status.value,
                    "attempt": sent.attempt,
                    "errors": sent.errors,
                    "event_id": event_id,
                    "dispatched_at": now,
                    "sent_at": now,
                    "wait_ms": None,
                    "ended_at": None,
                }
            )
        update_many(connection, batch_subtasks, rows)
        self._outbox.add(connection, *events)


def _turn(subtask: Subtask | None, batch: Batch | None) -> Turn:
    if subtask is None or batch is None:
        return Turn(TurnKind.OVER, "Its batch is no longer there.")
    if subtask.status is SubtaskStatus.DONE:
        return Turn(TurnKind.DONE, f"{subtask.kept} items.")
    if not batch.status.is_open or subtask.status is SubtaskStatus.CANCELLED:
        return Turn(TurnKind.OVER, f"The batch {batch.id} has ended: {batch.status}.")
    if subtask.status is SubtaskStatus.DISPATCHED:
        return Turn(TurnKind.WAIT)
    return Turn(TurnKind.PAUSED if batch.status is BatchStatus.PAUSED else TurnKind.WAIT)
