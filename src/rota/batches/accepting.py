"""A batch is taken on: its row, its first subtasks, what is told of it and whoever waits for it, in one transaction."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import msgspec
from sqlalchemy import Connection, bindparam, select

from rota.batches.agents.registry import ItemType
from rota.batches.batch import Batch, BatchStatus
from rota.batches.generators.base import estimate
from rota.batches.messages import submitted
from rota.batches.names import DETAIL_BATCH, FINISHED
from rota.batches.request import BatchesFrozen, BatchRequest, OtherRequest
from rota.batches.rows import BatchRows, batch_of
from rota.batches.section import BatchesConfig
from rota.batches.split import base_size, split
from rota.batches.switches import DEGRADED, FROZEN, switches_on
from rota.clock import Instant
from rota.database import Conflict
from rota.database.tables.batches import batches
from rota.database.upsert import upsert
from rota.events.envelope import uuid7
from rota.events.handles import Handles
from rota.events.outbox import Outbox

__all__ = ["Accepted", "Accepting", "NewSubtask", "subtask_rows"]

_KNOWN: Final = select(batches).where(
    batches.c.owner == bindparam("the_owner"), batches.c.idempotency_key == bindparam("the_key")
)
_RESUME_MARGIN_MS: Final = 60_000
"""A flow that waits for a batch hears of its end; its own deadline lies so far behind."""


@dataclass(frozen=True, slots=True)
class NewSubtask:
    """A subtask as the queue is offered it."""

    id: str
    index: int
    round: int
    count: int
    cost: int


class Accepted(NamedTuple):
    """The batch, and what is to be offered to the queue; nothing if the same request was accepted before."""

    batch: Batch
    subtasks: Sequence[NewSubtask]
    is_new: bool
    handle_id: str | None = None


def subtask_rows(
    batch: Batch, sizes: Sequence[int], round_: int, now: Instant, *, is_offered: bool
) -> tuple[list[dict[str, Any]], list[NewSubtask]]:
    """The rows of one round, and how they are offered."""
    style = msgspec.json.decode(batch.style)
    new = [
        NewSubtask(f"{batch.id}:{index}:{round_}", index, round_, count, estimate(batch.type, count, style))
        for index, count in enumerate(sizes)
    ]
    rows: list[dict[str, Any]] = [
        {
            "id": one.id,
            "batch_id": batch.id,
            "index": one.index,
            "round": one.round,
            "count": one.count,
            "cost": one.cost,
            "status": "queued",
            "queue_told": int(is_offered),
            "created_at": now,
        }
        for one in new
    ]
    return rows, new


class Accepting:
    """Takes batches on."""

    def __init__(
        self,
        rows: BatchRows,
        outbox: Outbox,
        handles: Handles,
        config: BatchesConfig,
        chance: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._rows = rows
        self._outbox = outbox
        self._handles = handles
        self._config = config
        self._chance = chance

    def accept(self, connection: Connection, request: BatchRequest, item_type: ItemType, owner: str) -> Accepted:
        """Take a request on, or find the batch of the same one. The request was checked."""
        known = self.known(connection, request, owner)
        if known is not None:
            return Accepted(known, (), is_new=False)
        switches = switches_on(connection)
        if FROZEN in switches:
            raise BatchesFrozen(
                "Batches are frozen by an operator: none is taken on now. `rota batch restore` takes them on again."
            )
        now = self._rows.now(connection)
        sizes = [request.count] if DEGRADED in switches else self._sizes(request, item_type)
        batch = self._new_batch(request, item_type, owner, now, len(sizes))
        if not self._insert(connection, batch):
            raise Conflict("another request of the same idempotency key was accepted")
        rows, new = subtask_rows(batch, sizes, 0, now, is_offered=True)
        told = {"batch_id": batch.id, "type": batch.type, "count": batch.count, "subtasks": len(new)}
        data = msgspec.json.encode(told).decode()
        first = {"batch_id": batch.id, "number": batch.events, "event": "accepted", "data": data, "at": now}
        self._rows.write(connection, new_subtasks=rows, events=[first])
        handle_id = self._handle(connection, request, batch)
        self._outbox.add(connection, submitted(batch))
        self._rows.tell(connection)
        self._rows.tell_queue(connection)
        return Accepted(batch, new, is_new=True, handle_id=handle_id)

    def known(self, connection: Connection, request: BatchRequest, owner: str) -> Batch | None:
        """The batch of the same request, if it was accepted before; `OtherRequest` if its key belongs to another."""
        if request.idempotency_key is None:
            return None
        given = {"the_owner": owner, "the_key": request.idempotency_key}
        row = connection.execute(_KNOWN, given).first()
        if row is None:
            return None
        batch = batch_of(row)
        if batch.digest != request.digest:
            raise OtherRequest(
                f"The idempotency key {request.idempotency_key!r} belongs to the batch {batch.id}, which was asked for"
                " with another body. Use a new key for a new request."
            )
        return batch

    def _sizes(self, request: BatchRequest, item_type: ItemType) -> list[int]:
        size = base_size(request.type, request.count, item_type.size)
        return split(request.count, size, first=self._config.first_size)

    def _new_batch(self, request: BatchRequest, item_type: ItemType, owner: str, now: Instant, expected: int) -> Batch:
        batch_id = uuid7(now, self._chance(10))
        seed = int.from_bytes(self._chance(6)) if request.seed is None else request.seed
        return Batch(
            id=batch_id,
            owner=owner,
            user_id=request.user_id,
            session_id=request.session_id or batch_id,
            type=request.type,
            agent=item_type.agent,
            count=request.count,
            style=msgspec.json.encode(request.style).decode(),
            priority=request.priority,
            seed=seed,
            distinct=request.distinct,
            similarity=round(1_000 * item_type.similarity),
            size=item_type.size,
            deadline_at=now + (request.deadline_ms or self._config.deadline_ms),
            budget_tokens=request.budget_tokens,
            idempotency_key=request.idempotency_key,
            digest=None if request.idempotency_key is None else request.digest,
            correlation_id=request.correlation_id or batch_id,
            status=BatchStatus.RUNNING,
            reason=None,
            expected=expected,
            done=0,
            failed=0,
            items=0,
            duplicates=0,
            invalid=0,
            late=0,
            rounds=0,
            tokens_in=0,
            tokens_out=0,
            events=1,
            numbers=0,
            first_at=None,
            created_at=now,
            ended_at=None,
        )

    def _insert(self, connection: Connection, batch: Batch) -> bool:
        row = {**msgspec.structs.asdict(batch), "status": batch.status.value}
        if batch.idempotency_key is None:
            connection.execute(batches.insert(), row)
            return True
        inserting = upsert(connection.dialect.name, batches).on_conflict_do_nothing().returning(batches.c.id)
        return connection.execute(inserting, row).first() is not None

    def _handle(self, connection: Connection, request: BatchRequest, batch: Batch) -> str | None:
        """A flow that waits is resumed by one event, the end of the batch: not by the first of its results."""
        if request.resume is None:
            return None
        resume = dict(request.resume)
        flow_run_id = cast("str | None", resume.pop("flow_run_id", None))
        callback = cast("dict[str, object] | None", resume.pop("callback", None) or (resume or None))
        return self._handles.create(
            connection,
            correlation_id=batch.correlation_id,
            expected=[FINISHED],
            expected_count=1,
            task_name=DETAIL_BATCH,
            flow_run_id=flow_run_id,
            callback=callback,
            timeout_ms=batch.deadline_at - batch.created_at + _RESUME_MARGIN_MS,
            user_id=batch.user_id,
        )
