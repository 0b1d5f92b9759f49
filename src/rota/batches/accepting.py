"""A batch is taken on: its row, its first subtasks, what is told of it and whoever waits for it, in one transaction;
and those that are asked for at the same moment share it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, cast

import msgspec
from sqlalchemy import Connection, bindparam, select

from rota.access import Principal
from rota.access.audit import AuditLog
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
from rota.database.many import insert_new_many
from rota.database.tables.batches import batches
from rota.events.envelope import uuid7
from rota.events.handles import Handles
from rota.events.outbox import Outbox
from rota.group_commit import GroupCommit, write_together

__all__ = ["Accepted", "Accepting", "Asked", "NewSubtask", "subtask_rows"]

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


class Asked(NamedTuple):
    """A request that was checked, and who it comes from; `by` for the audit log, `trace` for the events."""

    request: BatchRequest
    item_type: ItemType
    owner: str
    by: Principal | None
    trace: Mapping[str, str]


class Accepted(NamedTuple):
    """The batch, and what is to be offered to the queue; nothing if the same request was accepted before."""

    batch: Batch
    subtasks: Sequence[NewSubtask]
    is_new: bool
    handle_id: str | None = None


class _New(NamedTuple):
    """What is to be accepted, and the rows of its subtasks."""

    accepted: Accepted
    rows: Sequence[dict[str, Any]]


def _first_event(accepted: Accepted, now: Instant) -> dict[str, Any]:
    batch = accepted.batch
    told = {"batch_id": batch.id, "type": batch.type, "count": batch.count, "subtasks": len(accepted.subtasks)}
    data = msgspec.json.encode(told).decode()
    return {"batch_id": batch.id, "number": batch.events, "event": "accepted", "data": data, "at": now}


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
        self._audit = AuditLog(rows.database)
        self._group: GroupCommit[Asked, Accepted] = GroupCommit(
            partial(write_together, self._write),
            lambda _: 0,
            in_flight=rows.database.backend.in_flight,
            patience=rows.database.call_timeout,
        )

    async def accept(self, asked: Asked) -> Accepted:
        """Take a request on, or find the batch of the same one. When this returns, nothing of it can be lost."""
        (accepted,) = await self._group.submit([asked])
        return accepted

    async def close(self) -> None:
        await self._group.drain()

    async def _write(self, asked: list[Asked]) -> list[Accepted | Exception]:
        return await self._rows.database.shared(partial(self.accept_all, asked=asked))

    def accept_all(self, connection: Connection, asked: Sequence[Asked]) -> list[Accepted | Exception]:
        """Each is accepted, found, or refused by itself. What raises here is nobody's in particular: then each of them
        is tried alone."""
        switches = switches_on(connection)
        now = self._rows.now(connection)
        answers: list[Accepted | Exception] = []
        new: list[tuple[Asked, Accepted]] = []
        rows: list[dict[str, Any]] = []
        by_key: dict[tuple[str, str | None], Accepted] = {}
        for one in asked:
            place = one.owner, one.request.idempotency_key
            answer = self._answer(connection, one, switches, by_key.get(place), now)
            if isinstance(answer, _New):
                rows += answer.rows
                answer = answer.accepted
                new.append((one, answer))
                if place[1] is not None:
                    by_key[place] = answer
            answers.append(answer)
        if new:
            self._take_on(connection, new, rows, now)
            handles = {one.batch.id: self._handle(connection, asked.request, one.batch) for asked, one in new}
            answers = [
                one._replace(handle_id=handles.get(one.batch.id)) if isinstance(one, Accepted) and one.is_new else one
                for one in answers
            ]
        return answers

    def _answer(
        self, connection: Connection, asked: Asked, switches: Collection[str], twin: Accepted | None, now: Instant
    ) -> _New | Accepted | Exception:
        request = asked.request
        try:
            known = (
                self._same(twin.batch, request) if twin is not None else self.known(connection, request, asked.owner)
            )
        except OtherRequest as refusal:
            return refusal
        if known is not None:
            return Accepted(known, (), is_new=False)
        if FROZEN in switches:
            return BatchesFrozen(
                "Batches are frozen by an operator: none is taken on now. `rota batch restore` takes them on again."
            )
        sizes = [request.count] if DEGRADED in switches else self._sizes(request, asked.item_type)
        batch = self._new_batch(request, asked.item_type, asked.owner, now, len(sizes))
        rows, subtasks = subtask_rows(batch, sizes, 0, now, is_offered=True)
        return _New(Accepted(batch, subtasks, is_new=True), rows)

    def _take_on(
        self,
        connection: Connection,
        new: Sequence[tuple[Asked, Accepted]],
        subtasks: Sequence[Mapping[str, Any]],
        now: Instant,
    ) -> None:
        taken = [accepted.batch for _, accepted in new]
        rows = [{**msgspec.structs.asdict(batch), "status": batch.status.value} for batch in taken]
        if len(insert_new_many(connection, batches, rows, batches.c.id)) != len(rows):
            raise Conflict("another request of the same idempotency key was accepted")
        self._rows.write(connection, new_subtasks=subtasks, events=[_first_event(one, now) for _, one in new])
        self._outbox.add(connection, *(submitted(accepted.batch, asked.trace) for asked, accepted in new))
        self._rows.tell(connection)
        self._rows.tell_queue(connection)
        for asked, accepted in new:
            if asked.by is not None:
                request = asked.request
                asked_for = {"type": request.type, "count": request.count, "session_id": request.session_id}
                self._audit.add(connection, asked.by, "batch.start", accepted.batch.id, asked_for)

    def known(self, connection: Connection, request: BatchRequest, owner: str) -> Batch | None:
        """The batch of the same request, if it was accepted before; `OtherRequest` if its key belongs to another."""
        if request.idempotency_key is None:
            return None
        given = {"the_owner": owner, "the_key": request.idempotency_key}
        row = connection.execute(_KNOWN, given).first()
        if row is None:
            return None
        return self._same(batch_of(row), request)

    @staticmethod
    def _same(batch: Batch, request: BatchRequest) -> Batch:
        """The batch, if it was asked for by just this request."""
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
