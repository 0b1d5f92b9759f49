"""Three duties for each consumer: one brings what the bus has, one tries again what has failed, one keeps the leases.

They share the consumer's deliveries, and run wherever a worker runs.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from rota.clock import SECOND, Instant, Millis
from rota.database.changes import Subscription
from rota.errors import StoreError
from rota.events.buses.base import BusReader
from rota.events.consumer import Consumer
from rota.events.deliveries import Deliveries
from rota.events.events import Events
from rota.events.inbox import INBOX_CHANGED
from rota.runtime.duty import Duty, DutyContext
from rota.runtime.health import Pulse
from rota.runtime.thread_duty import ThreadDuty

__all__ = ["LEASE_MS", "ConsumerDuty", "LeaseDuty", "RetryDuty", "make_duties"]

LEASE_MS: Final[Millis] = 10 * SECOND
FETCH_SECONDS: Final = 1.0
"""For so long a fetch waits; then it is looked whether what was done is to be committed."""
LOOK_SECONDS: Final = 5.0
"""What another instance has left in the inbox is found within this time."""
SHORTEST_SECONDS: Final = 0.02
"""What is due may have to wait for a turn: nobody asks more often than this."""
COMMIT_SECONDS: Final = 0.5
"""How often it is noted how far events are done, or passed over: a commit for each pass would cost more than the events
that are handled. What is brought again is known by the inbox; and on a bus that lies in the database it is noted with
each effect."""
IDLE_SECONDS: Final = 5.0
"""How often it is looked whether somebody wants a database by now."""
RENEW_AGAIN_SECONDS: Final = 0.5
"""How soon leases are renewed again after that has failed."""
GRACE_SECONDS: Final = 5.0
"""For so long whoever stops waits for the handlers that run."""

OpenEvents = Callable[[], Awaitable[Events | None]]


class _Shared:
    """What the three have in common, made when it is first needed."""

    def __init__(self, consumer: Consumer, open_events: OpenEvents, context: DutyContext, lease_ms: Millis) -> None:
        self.consumer = consumer
        self.lease_ms = lease_ms
        self._open_events = open_events
        self._context = context
        self._token = f"{context.instance}/{uuid.uuid4().hex}"
        self.deliveries: Deliveries | None = None
        self.reader: BusReader | None = None

    @property
    def is_closed(self) -> bool:
        return self.consumer.gate is not None and not self.consumer.gate.is_open

    def wake_at_opening(self, wake: Callable[[], None]) -> None:
        if self.consumer.gate is not None:
            self.consumer.gate.wake_at_opening(wake)

    async def open(self) -> Deliveries | None:
        if self.is_closed:
            return None
        events = await self._open_events()
        if events is None:
            return None
        if self.deliveries is None:
            self.deliveries = Deliveries(
                self.consumer,
                events,
                token=self._token,
                lease_ms=self.lease_ms,
                clock=self._context.clock,
                chance=self._context.chance,
            )
        return self.deliveries

    async def read(self) -> BusReader:
        events = await self._open_events()
        assert events is not None
        if self.reader is None:
            topics = self.consumer.topics_with(events.outbox.topic_of)
            self.reader = await events.bus.reader(self.consumer.name, topics, instance=self._context.instance)
        return self.reader


class ConsumerReport(NamedTuple):
    """How many messages one pass has brought."""

    fetched: int = 0
    is_idle: bool = False
    """Whether there is nothing to read from."""


class ConsumerDuty(Duty[ConsumerReport]):
    """Fetches, hands on, commits."""

    def __init__(self, shared: _Shared, context: DutyContext) -> None:
        super().__init__(context.pulse, context.chance)
        self.name = f"consumer {shared.consumer.name}"
        self._shared = shared
        self._clock = context.clock
        self._commit_at = context.clock.monotonic()
        self._committing: asyncio.Task[None] | None = None
        shared.wake_at_opening(self.wake)

    async def run_once(self, now: Instant | None = None) -> ConsumerReport:
        deliveries = await self._shared.open()
        if deliveries is None:
            return ConsumerReport(is_idle=True)
        reader = await self._shared.read()
        if not deliveries.has_room:
            await deliveries.wait_for_room(FETCH_SECONDS)
        messages: Sequence[Any] = ()
        if deliveries.has_room and not self.is_stopping:
            messages = await reader.fetch(deliveries.room, FETCH_SECONDS)
        deliveries.keep_only(reader.places())
        if messages:
            await deliveries.accept(messages, reader)
        self._commit_if_due(deliveries, reader)
        return ConsumerReport(len(messages))

    def _commit_if_due(self, deliveries: Deliveries, reader: BusReader) -> None:
        """In the background: nobody fetches later because a bus takes its time."""
        if self._committing is not None:
            if not self._committing.done():
                return
            committing, self._committing = self._committing, None
            committing.result()  # what went wrong is this duty's trouble
        if self._clock.monotonic() >= self._commit_at:
            self._committing = asyncio.get_running_loop().create_task(self._commit(deliveries, reader))
            self._commit_at = self._clock.monotonic() + COMMIT_SECONDS

    @staticmethod
    async def _commit(deliveries: Deliveries, reader: BusReader) -> None:
        marks = deliveries.progress.reached()
        if marks:
            await reader.commit(marks)
            deliveries.progress.committed(marks)

    def pause_after(self, report: ConsumerReport) -> float:
        return IDLE_SECONDS if report.is_idle else 0.0

    def stop(self) -> None:
        super().stop()
        if self._shared.reader is not None:
            self._shared.reader.wake()

    async def close(self) -> None:
        """What runs may end; how far it is done is committed; the places are others' at once."""
        deliveries, reader = self._shared.deliveries, self._shared.reader
        if deliveries is not None:
            await deliveries.close(GRACE_SECONDS)
        if reader is not None:
            if self._committing is not None:
                await asyncio.gather(self._committing, return_exceptions=True)  # it is tried once more
            if deliveries is not None:
                with suppress(StoreError):  # what was not committed is brought again, and known
                    await self._commit(deliveries, reader)
            await reader.close()


class RetryDuty(Duty[float]):
    """Tries again what is due, from the inbox. It reports in how many seconds the next one is."""

    def __init__(self, shared: _Shared, context: DutyContext) -> None:
        super().__init__(context.pulse, context.chance)
        self.name = f"retries of {shared.consumer.name}"
        self._shared = shared
        self._waker: asyncio.Task[None] | None = None
        self._heard: Subscription | None = None
        shared.wake_at_opening(self.wake)

    async def run_once(self, now: Instant | None = None) -> float:
        deliveries = await self._shared.open()
        if deliveries is None:
            return IDLE_SECONDS
        if self._heard is None:
            self._heard = await deliveries.changes.subscribe(INBOX_CHANGED, on_wake=self.wake)
        if self._waker is None:
            self._waker = asyncio.get_running_loop().create_task(self._wake_on(deliveries))
        if await deliveries.read(deliveries.inbox.has_suspects):
            await self._try_alone(deliveries)
        if deliveries.turns.free > 0 and not self.is_stopping:
            limit = deliveries.turns.free
            for retry in await deliveries.claim_retries(limit, alone=False):
                deliveries.accept_retry(retry)
        return await deliveries.seconds_to_next()

    async def _try_alone(self, deliveries: Deliveries) -> None:
        async with deliveries.turns.alone():
            for retry in await deliveries.claim_retries(1, alone=True):
                await deliveries.run_alone(retry)

    async def _wake_on(self, deliveries: Deliveries) -> None:
        while True:
            await deliveries.retry_noted.wait()
            deliveries.retry_noted.clear()
            self.wake()

    def pause_after(self, report: float) -> float:
        return min(max(report, SHORTEST_SECONDS), LOOK_SECONDS)

    async def close(self) -> None:
        if self._heard is not None:
            self._heard.close()
        if self._waker is not None:
            self._waker.cancel()


class LeaseDuty(Duty[None]):
    """Keeps what this instance has started, as long as it lives: on a thread, so that a handler that blocks the event
    loop does not lose it."""

    def __init__(self, shared: _Shared, context: DutyContext) -> None:
        super().__init__(context.pulse, context.chance)
        self.name = f"leases of {shared.consumer.name}"
        self._shared = shared
        self._thread = _LeaseThread(self.name, shared, context.pulse)
        shared.wake_at_opening(self.wake)

    async def run_once(self, now: Instant | None = None) -> None:
        if not self._shared.is_closed:
            self._thread.start()

    def pause_after(self, report: None) -> float:
        return math.inf

    async def close(self) -> None:
        await self._thread.stop()


class _LeaseThread(ThreadDuty[None]):
    def __init__(self, name: str, shared: _Shared, pulse: Pulse) -> None:
        super().__init__(pulse)
        self.name = name
        self._shared = shared

    def run_once(self, now: Instant | None = None) -> None:
        if self._shared.deliveries is not None:
            self._shared.deliveries.renew()

    def pause(self, failures: int) -> float:
        return self._shared.lease_ms / (3 * SECOND) if failures == 0 else RENEW_AGAIN_SECONDS


def make_duties(
    consumer: Consumer, open_events: OpenEvents, context: DutyContext, *, lease_ms: Millis = LEASE_MS
) -> list[Duty[Any]]:
    """The three of one consumer."""
    shared = _Shared(consumer, open_events, context, lease_ms)
    return [ConsumerDuty(shared, context), RetryDuty(shared, context), LeaseDuty(shared, context)]
