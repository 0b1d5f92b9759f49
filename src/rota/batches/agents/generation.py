"""An agent at work: it is asked for items by an event, has them made outside any transaction, and answers by an event.

A generator that fails is answered for, too: the queue decides when it is tried again, because another call has to pass
the same limits. An agent that dies has answered nothing: the bus brings the event to another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import msgspec
from sqlalchemy import Connection, literal_column, select

from rota.batches.agents.registry import ItemTypes
from rota.batches.generators.base import Generated, GenerationRequest, Generator, Item, item_of
from rota.batches.limits import CALLS_BUCKET, TOKENS_BUCKET, Limits
from rota.batches.messages import Created, Failed, Requested, Usage, read_request
from rota.batches.names import CREATED, FAILED
from rota.batches.stats import BatchStats
from rota.clock import SECOND, Clock, Millis
from rota.codec import to_json
from rota.core.task_type import RateLimit
from rota.database import Database
from rota.database.tables.batches import batch_subtasks
from rota.errors import InvalidInput, RotaError, StoreError
from rota.events.consumer import Effect, JointEffect
from rota.events.delivery import NonRetriable
from rota.events.envelope import MAX_PAYLOAD_BYTES, Event
from rota.events.outbox import Outbox
from rota.events.tracing import current_trace
from rota.group_commit import GroupCommit, write_together
from rota.llm import BadAnswer, LlmFailed, LlmRefused, LlmTimeout, Throttled
from rota.logs import get_logger
from rota.stores.base import Store

__all__ = ["Generation"]

_ROOM: Final = 4_096
"""Bytes of an event that are not items."""
_USUAL_PAUSE_SECONDS: Final = 5.0
"""How long a provider is left alone that does not say for how long itself."""

log = get_logger("rota.batches")


class Generation:
    """What all agents of a process share."""

    def __init__(
        self,
        types: ItemTypes,
        generator: Callable[[], Generator],
        outbox: Outbox,
        open_store: Callable[[], Awaitable[Store]],
        stats: BatchStats,
        clock: Clock,
        *,
        limits: Limits,
        call_timeout_ms: Millis,
    ) -> None:
        self._types = types
        self._generator = generator
        self._outbox = outbox
        self._database: Database = outbox.database
        self._open_store = open_store
        self._stats = stats
        self._clock = clock
        self._limits = limits
        self._seconds = call_timeout_ms / SECOND
        dialect = self._database.backend.dialect
        columns = batch_subtasks.c
        self._attempts = select(columns.id, columns.attempt).where(
            dialect.among(columns.id), columns.status == literal_column("'dispatched'")
        )
        self._wanted: GroupCommit[Requested, bool] = GroupCommit(
            partial(write_together, self._look_whether_wanted), lambda _: 0, patience=self._database.call_timeout
        )

    async def answer(self, event: Event) -> Effect | None:
        """What is to be committed with a request: its result."""
        try:
            asked = read_request(event)
        except InvalidInput as error:
            raise NonRetriable(str(error)) from None
        (is_wanted,) = await self._wanted.submit([asked])
        if not is_wanted:
            return None  # the batch was cancelled, or somebody else has answered: nothing is spent on it
        started = self._clock.monotonic()
        said = await self._generate(asked)
        self._stats.note_call(asked.type, self._clock.monotonic() - started, said)
        kind = CREATED if isinstance(said, Created) else FAILED
        result = event.then(
            kind,
            msgspec.to_builtins(said),
            key=asked.batch_id,
            aggregate_type=event.aggregate_type,
            headers=current_trace(),  # of this call: it is added together with others
        )
        return JointEffect(self._publish, result)

    def _publish(self, connection: Connection, results: Sequence[Event]) -> None:
        self._outbox.add(connection, *results)

    async def close(self) -> None:
        await self._wanted.drain()

    async def _look_whether_wanted(self, asked: list[Requested]) -> list[bool]:
        """Whether somebody waits for just these attempts: one look for all that are asked at the same time."""
        keys = self._database.backend.dialect.keys([one.task_id for one in asked])
        rows = await self._database.read(lambda connection: connection.execute(self._attempts, {"keys": keys}).all())
        attempts: dict[str, int] = {row.id: row.attempt for row in rows}
        return [attempts.get(one.task_id) == one.attempt for one in asked]

    async def _generate(self, asked: Requested) -> Created | Failed:
        try:
            async with asyncio.timeout(self._seconds):
                generated = await self._make(_request(asked))
        except Throttled as error:
            seconds = _USUAL_PAUSE_SECONDS if error.retry_after is None else error.retry_after
            await self._owe_calls(seconds)
            return _failed(asked, "throttled", str(error), retry_after=seconds)
        except LlmRefused as error:
            return _failed(asked, "refused", str(error), is_final=True)
        except (TimeoutError, LlmTimeout) as error:
            said = str(error) or f"No items came within {self._seconds:g} s."
            return _failed(asked, "timeout", said)
        except LlmFailed as error:
            await self._settle_tokens(asked, error.usage.tokens_in + error.usage.tokens_out)
            return _failed(asked, error.code, str(error))
        except NonRetriable as error:
            return _failed(asked, "refused", str(error), is_final=True)
        except Exception as error:
            # A generator of the app's own may raise what it likes; the queue tries again, and the log says where.
            expected = isinstance(error, RotaError)
            log.warning(
                "generator failed", type=asked.type, task_id=asked.task_id, exc_info=None if expected else error
            )
            return _failed(asked, type(error).__name__, str(error) or type(error).__name__)
        usage = generated.usage
        await self._settle_tokens(asked, usage.tokens_in + usage.tokens_out)
        return _created(asked, generated)

    async def _make(self, request: GenerationRequest) -> Generated:
        item_type = self._types.find(request.type)
        if item_type.function is None:
            return await self._generator().generate(request)
        return _generated(await item_type.function(request))

    # --- what was spent ---

    async def _owe_calls(self, seconds: float) -> None:
        """The provider wants to be left alone: nobody claims anything until that time has passed."""
        calls = self._limits.calls
        if calls is not None:
            await self._take(CALLS_BUCKET, calls, -(-int(seconds * calls.rate * 1_000) // 1_000))

    async def _settle_tokens(self, asked: Requested, spent: int) -> None:
        """The claim has taken an estimate: what was more is owed, what was less is given back."""
        tokens = self._limits.tokens
        if tokens is not None and spent:
            await self._take(TOKENS_BUCKET, tokens, spent - min(asked.cost, tokens.burst))

    async def _take(self, bucket: str, limit: RateLimit, amount: int) -> None:
        if amount == 0:
            return
        try:
            store = await self._open_store()
            await store.take(bucket, amount, rate=limit.rate, burst=limit.burst, owe=True)
        except StoreError as error:
            # The result must not be lost over it: the bucket is wrong by one call.
            log.warning("bucket not settled", bucket=bucket, amount=amount, error=str(error))


def _request(asked: Requested) -> GenerationRequest:
    return GenerationRequest(
        subtask_id=asked.task_id,
        batch_id=asked.batch_id,
        session_id=asked.session_id,
        type=asked.type,
        count=asked.count,
        style=asked.style,
        seed=asked.seed,
        index=asked.index,
        round=asked.round,
        attempt=asked.attempt,
        avoid=tuple(asked.avoid),
    )


def _created(asked: Requested, generated: Generated) -> Created | Failed:
    items = [{"name": item.name, **item.fields} for item in generated.items[: asked.count]]
    if len(to_json(items)) > MAX_PAYLOAD_BYTES - _ROOM:
        return _failed(asked, BadAnswer.code, "The items are too large for one event. Ask for shorter ones.")
    return Created(
        session_id=asked.session_id,
        task_id=asked.task_id,
        batch_id=asked.batch_id,
        attempt=asked.attempt,
        items=items,
        usage=Usage(tokens_in=generated.usage.tokens_in, tokens_out=generated.usage.tokens_out),
        invalid=generated.invalid,
    )


def _failed(
    asked: Requested, reason: str, error: str, *, is_final: bool = False, retry_after: float | None = None
) -> Failed:
    return Failed(
        session_id=asked.session_id,
        task_id=asked.task_id,
        batch_id=asked.batch_id,
        attempt=asked.attempt,
        reason=reason,
        error=error[:2_000],
        is_final=is_final,
        retry_after=retry_after,
    )


def _generated(made: object) -> Generated:
    """What a function of the app's own has made. What is no item is counted, not guessed at."""
    if isinstance(made, Generated):
        return made
    kind = type(made).__name__
    if isinstance(made, str | Mapping) or not isinstance(made, Sequence):
        raise InvalidInput(f"A generator returned a {kind}. Return a list of texts, mappings or Items.")
    items = [_item(one) for one in cast("Sequence[object]", made)]
    good = [item for item in items if item is not None]
    return Generated(good, invalid=len(items) - len(good))


def _item(one: object) -> Item | None:
    if isinstance(one, Item):
        return one
    if isinstance(one, str):
        return item_of(one, {})
    if isinstance(one, Mapping):
        fields: dict[str, Any] = {str(key): value for key, value in cast("Mapping[object, object]", one).items()}
        name = fields.pop("name", None)
        if isinstance(name, str):
            return item_of(name, {key: str(value) for key, value in fields.items() if value is not None})
    return None
