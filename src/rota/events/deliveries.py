"""What one instance has of a consumer's events: keys side by side, the events of one key one after the other.

An event runs in three steps. It is noted as started, together with whatever else came with it. Its handler runs. Then
one transaction has everything that comes of it: the effect, the events that it publishes, the note that it is done, and
on the local bus how far the partition is done. If that fails, nothing of it is there, and the event is tried again.

An event that fails goes to the inbox, those of its key that came after it go behind it, and the partition moves on:
nobody else feels anything.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

from sqlalchemy import Connection

from rota.clock import SECOND, Clock, Millis
from rota.core.lifecycle import MAX_CRASHES
from rota.errors import InvalidInput, LeaseLost, StoreUnavailable
from rota.events.buses.base import BusReader, Message, Place
from rota.events.consumer import Consumer, Effect, JointEffect
from rota.events.dead_letter import dead_letter, without_original
from rota.events.delivery import (
    Begin,
    Classify,
    Failure,
    InboxStatus,
    Later,
    NonRetriable,
    after_failure,
)
from rota.events.envelope import Event, decode
from rota.events.events import Events
from rota.events.inbox import Arrived, Inbox, Known, Retry
from rota.events.kept import Kept, keep, kept_message
from rota.events.progress import Progress
from rota.events.tracing import handling
from rota.events.turns import Turns
from rota.group_commit import GroupCommit
from rota.logs import get_logger

__all__ = ["Deliveries"]

ASK_AGAIN_SECONDS: Final = 0.5
"""How often it is asked whether another instance is done with an event, at most."""
_LONGEST_PAUSE: Final = 2.0

T = TypeVar("T")

log = get_logger("rota.events")


class _Delivery:
    """One event on its way through its handler."""

    def __init__(self, arrived: Arrived, event: Event | None, kept: Kept, problem: str | None) -> None:
        self.arrived = arrived
        self.event = event
        self.kept = kept
        self.problem = problem
        """Why it is no event, if it is none."""
        self.offsets: list[tuple[Place, Any]] = []
        self.known: Known | None = None
        """What the inbox has said to it; None while it is being asked."""
        self.asked = asyncio.Event()
        self.is_over = False

    @property
    def attempts(self) -> int:
        return 0 if self.known is None else self.known.attempts

    def answer(self, known: Known) -> None:
        self.known = known
        self.asked.set()


class _Ending(NamedTuple):
    """A handler has ended: what is to be committed with that, in whose context."""

    delivery: _Delivery
    effect: Effect | None
    context: Context


class _OneFailed(Exception):
    """An effect has raised something. Of several, which one that was is found out one by one."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Deliveries:
    """The events of one consumer in one process. `token` is its own, for as long as it lives."""

    def __init__(
        self,
        consumer: Consumer,
        events: Events,
        *,
        token: str,
        lease_ms: Millis,
        clock: Clock,
        chance: Callable[[], float],
    ) -> None:
        self.consumer = consumer
        self._events = events
        self._database = events.database
        self.changes = events.database.changes
        self._clock = clock
        self._chance = chance
        self.inbox = Inbox(events.database, consumer.name, token, lease_ms=lease_ms)
        self.turns = Turns(consumer.concurrency)
        self.progress = Progress()
        self.retry_noted = asyncio.Event()
        """Set when something waits in the inbox that was not there before."""
        self._reader: BusReader | None = None
        self._lanes: dict[tuple[str, str], deque[_Delivery]] = {}
        self._open: dict[str, _Delivery] = {}
        self._jobs: set[asyncio.Task[None]] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._freed = asyncio.Event()
        self._endings: GroupCommit[_Ending, None] = GroupCommit(
            self._end, lambda _: 0, in_flight=events.database.backend.in_flight, patience=events.database.call_timeout
        )
        self._is_stopping = False
        self.limit = max(100, 10 * consumer.concurrency)
        """So many are open here at most."""

    # --- what a bus brings ---

    @property
    def room(self) -> int:
        return self.limit - len(self._open)

    @property
    def has_room(self) -> bool:
        """Whether there is room for a good number: one at a time would cost a commit each."""
        return self.room >= self.limit // 4

    async def wait_for_room(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not self.has_room:
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            return

    async def accept(self, messages: Sequence[Message], reader: BusReader) -> None:
        """Take messages on. They are noted as started in one transaction, and run as soon as it is their turn."""
        self._reader = reader
        new = [one for message in messages if (one := self._take(message)) is not None]
        if new:
            for one in new:
                self._line_up(one)
            await self._begin(new)

    def _take(self, message: Message) -> _Delivery | None:
        """The message as a delivery; None if it is none of ours, or is here already."""
        self.progress.note(message.place, message.offset)
        read = None if self._is_for_others(message) else _read(message)
        if read is None or (read.event is not None and not self.consumer.is_for(read.event)):
            self._count("ignored")
            self.progress.done(message.place, message.offset)
            return None
        delivery = _delivery_of(message, read)
        known = self._open.get(delivery.arrived.event_id)
        (known or delivery).offsets.append((message.place, message.offset))
        return None if known is not None else delivery

    def _is_for_others(self, message: Message) -> bool:
        """Whether its headers say already that it is none of ours: then nobody reads the rest. Only those that a relay
        has written say so; what others write there is their business."""
        told = message.headers.get("event_type")
        return told is not None and "event_id" in message.headers and told not in self.consumer.event_types

    def _line_up(self, delivery: _Delivery) -> None:
        self._open[delivery.arrived.event_id] = delivery
        key = delivery.arrived.topic, delivery.arrived.key
        lane = self._lanes.get(key)
        if lane is not None:
            lane.append(delivery)
            return
        self._lanes[key] = deque([delivery])
        self._start(self._run_lane(key, self._lanes[key]))

    async def _begin(self, new: Sequence[_Delivery]) -> None:
        arrived = [one.arrived for one in new]
        # If it fails nobody knows whether they are noted: each asks for itself, when it is its turn.
        answers = [Known(Begin.HELD)] * len(new)
        try:
            answers = await self._database.grouped(lambda connection: self.inbox.begin(connection, arrived))
        finally:
            for one, known in zip(new, answers, strict=True):
                one.answer(known)

    # --- lanes ---

    async def _run_lane(self, key: tuple[str, str], lane: deque[_Delivery]) -> None:
        """The events of one key, in order. After a failure the others wait behind it, in the inbox."""
        has_failed = False
        try:
            while lane and not self._is_stopping:
                delivery = lane[0]
                await delivery.asked.wait()
                try:
                    if has_failed:
                        await self._put_behind(delivery)
                    else:
                        has_failed = not await self._deliver(delivery)
                except Exception as error:
                    if self._is_stopping:
                        raise
                    # Nothing that happens here may lose an event, or stop its key for ever.
                    log.error("delivery failed", consumer=self.consumer.name, exc_info=error)
                    delivery.known = Known(Begin.HELD)
                    continue
                if not delivery.is_over:
                    break  # it has not begun, and will not here
                lane.popleft()
                self._close(delivery)
        finally:
            del self._lanes[key]

    async def _put_behind(self, delivery: _Delivery) -> None:
        assert delivery.known is not None
        if delivery.known.begin in (Begin.KNOWN, Begin.BEHIND):
            self._done(delivery)
            return

        marks = self.progress.reached(delivery.offsets)

        def write(connection: Connection) -> bool:
            is_there = self.inbox.put_behind(connection, delivery.arrived)
            if is_there:
                self._commit_marks(connection, marks)
            return is_there

        while not await self._write(write):
            # Another instance has it. If that one is dead its lease is over soon; until then it is not ours to move.
            await asyncio.sleep(ASK_AGAIN_SECONDS)
            if self._is_stopping:
                return
        self._count("retrying")
        self._done(delivery, marks)
        self.retry_noted.set()

    async def _deliver(self, delivery: _Delivery) -> bool:
        """Whether its key may go on."""
        while True:
            known = delivery.known
            assert known is not None
            match known.begin:
                case Begin.KNOWN:
                    self._count("known")
                    self._done(delivery)
                    return True
                case Begin.BEHIND:
                    self._count("retrying")
                    self._done(delivery)
                    self.retry_noted.set()
                    return False
                case Begin.HELD:
                    await asyncio.sleep(ASK_AGAIN_SECONDS)
                    await self._ask_again(delivery)
                case Begin.DEAD:
                    await self._bury(delivery)
                    return True
                case Begin.ALONE:
                    async with self.turns.alone():
                        await self._ask_again(delivery, alone=True)
                        if delivery.known is not None and delivery.known.begin is Begin.RUN:
                            return await self._run(delivery)
                case Begin.RUN:
                    async with self.turns:
                        if self._is_stopping:
                            return False
                        ended = await self._run(delivery)
                    if delivery.known is known:
                        return ended

    async def _ask_again(self, delivery: _Delivery, *, alone: bool = False) -> None:
        def ask(connection: Connection) -> Known:
            return self.inbox.begin(connection, [delivery.arrived], alone=alone)[0]

        delivery.known = await self._write(ask)

    # --- what is tried from the inbox ---

    async def read(self, function: Callable[[Connection], T]) -> T:
        return await self._database.read(function)

    async def claim_retries(self, limit: int, *, alone: bool) -> list[Retry]:
        """Those that are due now, of each key the first."""
        if not alone and not await self._database.read(self._any_due):
            return []
        return await self._database.write(lambda connection: self.inbox.claim_retries(connection, limit, alone=alone))

    def _any_due(self, connection: Connection) -> bool:
        at = self.inbox.next_retry_at(connection)
        return at is not None and at <= self.inbox.now(connection)

    async def seconds_to_next(self) -> float:
        """Until the next one is due."""

        def look(connection: Connection) -> float:
            at = self.inbox.next_retry_at(connection)
            return math.inf if at is None else max(0.0, (at - self.inbox.now(connection)) / SECOND)

        return await self._database.read(look)

    def accept_retry(self, retry: Retry) -> None:
        """Try one that waits in the inbox; it is noted as ours already."""
        delivery = self._taken_from_inbox(retry)
        self._start(self._retry(retry, delivery))

    async def _retry(self, retry: Retry, delivery: _Delivery) -> None:
        async with self.turns:
            if not self._is_stopping:
                await self._try(retry, delivery)

    async def run_alone(self, retry: Retry) -> None:
        """The same while nothing else runs; the caller has the turn."""
        await self._try(retry, self._taken_from_inbox(retry))

    def _taken_from_inbox(self, retry: Retry) -> _Delivery:
        kept = kept_message(retry.envelope)
        message = Message(Place(retry.topic, kept.partition), kept.offset, retry.key, kept.headers, kept.value.encode())
        delivery = _delivery_of(message, _read(message), event_id=retry.event_id)
        delivery.answer(Known(Begin.RUN, retry.attempts, retry.crashes))
        self._open[retry.event_id] = delivery
        return delivery

    async def _try(self, retry: Retry, delivery: _Delivery) -> None:
        try:
            await (self._bury(delivery) if retry.crashes >= MAX_CRASHES else self._run(delivery))
        finally:
            if not self._is_stopping or delivery.is_over:
                self._close(delivery)
            self.retry_noted.set()

    # --- one event ---

    async def _run(self, delivery: _Delivery) -> bool:
        with handling(self._events.tracer, self.consumer.name, delivery.event):
            return await self._run_to_its_end(delivery)

    async def _run_to_its_end(self, delivery: _Delivery) -> bool:
        """Handle it and write down how it ended: True if it is done. If it is somebody else's by now, ask again."""
        began = self._clock.monotonic()
        error: Exception | None = None
        effect: Effect | None = None
        try:
            effect = await self._handle(delivery)
        except Exception as raised:
            error = raised
        finally:
            self._events.stats.handling_seconds[self.consumer.name].observe(self._clock.monotonic() - began)
        try:
            if error is None:
                error = await self._finish(delivery, effect)
            if error is not None:
                await self._fail(delivery, error)
        except LeaseLost as lost:
            log.warning("event lost to another instance", consumer=self.consumer.name, error=str(lost))
            delivery.known = Known(Begin.HELD)
            return False
        return error is None

    async def _handle(self, delivery: _Delivery) -> Effect | None:
        if delivery.event is None:
            raise NonRetriable(delivery.problem or "The message is no event.")
        seconds = self.consumer.timeout_ms / SECOND
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                if self.consumer.is_async:
                    effect = await self.consumer.function(delivery.event)
                else:
                    effect = await asyncio.get_running_loop().run_in_executor(
                        self._executor(), self.consumer.function, delivery.event
                    )
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"The handler took longer than {seconds:g} s.") from None
            raise
        if effect is not None and not callable(effect):
            raise NonRetriable(
                f"The handler of {self.consumer.name!r} returned {type(effect).__name__}. Return None, or an effect: a"
                " function of the connection."
            )
        return effect

    async def _finish(self, delivery: _Delivery, effect: Effect | None) -> Exception | None:
        """Commit what came of it, together with whatever else has come to its end; what its effect raised, if it
        did."""
        try:
            await self._until_answered(lambda: self._endings.submit([_Ending(delivery, effect, copy_context())]))
        except (LeaseLost, StoreUnavailable):
            raise
        except Exception as error:
            return error
        self._count("done")
        return None

    async def _end(self, endings: list[_Ending]) -> Sequence[Exception | None]:
        """A group of endings in one transaction. Each effect is there whole or not at all."""
        marks = self.progress.reached(place for ending in endings for place in ending.delivery.offsets)
        try:
            answers = await self._database.shared(partial(self._end_together, endings=endings, marks=marks))
        except _OneFailed as failed:
            answers = [failed.error]
            if len(endings) > 1:
                answers = await self._database.shared(partial(self._end_each, endings=endings, marks=marks))
        for ending, answer in zip(endings, answers, strict=True):
            if answer is None:
                self._done(ending.delivery)
        if not any(answers) and self._is_committed_within:
            self.progress.committed(marks)
        return answers

    def _end_together(
        self, connection: Connection, endings: Sequence[_Ending], marks: dict[Place, Any]
    ) -> list[Exception | None]:
        """As if no effect failed, which few do: they are noted as done first, and nothing stands between them. If one
        fails nothing of this stays."""
        ours = self.inbox.finish(connection, _ids(endings))
        whole = [ending for ending in endings if ending.delivery.arrived.event_id in ours]
        try:
            for effect in _joined(whole):
                effect(connection)
        except Exception as error:
            if self._database.is_about_the_database(error):
                raise
            raise _OneFailed(self._database.said(error)) from error
        if len(whole) == len(endings):
            self._commit_marks(connection, marks)
        return [None if ending.delivery.arrived.event_id in ours else _lost(ending) for ending in endings]

    def _end_each(
        self, connection: Connection, endings: Sequence[_Ending], marks: dict[Place, Any]
    ) -> list[Exception | None]:
        """Each effect behind a savepoint: one that fails takes nobody with it."""
        ours = self.inbox.hold(connection, _ids(endings))
        answers = [self._take_effect(connection, ending, ours) for ending in endings]
        done = [ending for ending, answer in zip(endings, answers, strict=True) if answer is None]
        if done:
            self.inbox.finish(connection, _ids(done))
        if len(done) == len(endings):
            self._commit_marks(connection, marks)
        return answers

    def _take_effect(self, connection: Connection, ending: _Ending, ours: Collection[str]) -> Exception | None:
        if ending.delivery.arrived.event_id not in ours:
            return _lost(ending)
        if ending.effect is None:
            return None
        answer = self._database.in_savepoint(connection, partial(ending.context.run, ending.effect))
        return answer if isinstance(answer, Exception) else None

    async def _fail(self, delivery: _Delivery, error: Exception) -> None:
        said = self._said_about(error)
        attempts, chance = delivery.attempts, self._chance()
        marks = self.progress.reached(delivery.offsets)

        def write(connection: Connection) -> Failure:
            failure = after_failure(
                error,
                said,
                attempts,
                max_attempts=self.consumer.max_attempts or self._events.config.max_attempts,
                retry=self._events.config.retry,
                now=self.inbox.now(connection),
                chance=chance,
            )
            self.inbox.fail(connection, delivery.arrived.event_id, failure, delivery.arrived.envelope)
            if failure.status is InboxStatus.DEAD:
                self._add_dead_letter(connection, delivery, failure)
            self._commit_marks(connection, marks)
            return failure

        failure = await self._write(write)
        is_later = isinstance(said, Later) or (isinstance(error, Later) and said is None)
        self._events.stats.errors[self.consumer.name, failure.error_class] += not is_later
        self._count("later" if is_later else str(failure.status))
        self._done(delivery, marks)
        self.retry_noted.set()
        log.warning(
            "event waits" if is_later else "event dead" if failure.status is InboxStatus.DEAD else "event failed",
            consumer=self.consumer.name,
            event_id=delivery.arrived.event_id,
            attempts=failure.attempts,
            error=failure.error,
            error_class=failure.error_class,
        )

    async def _bury(self, delivery: _Delivery) -> None:
        """It has ended its process too often: dead, with the letter that says so."""
        text = f"Its handler has ended the process {MAX_CRASHES} times."
        failure = Failure(InboxStatus.DEAD, delivery.attempts, 0, "Crashed", text)
        marks = self.progress.reached(delivery.offsets)

        def write(connection: Connection) -> None:
            arrived = delivery.arrived
            if self.inbox.bury(connection, arrived.event_id, failure, arrived.envelope):
                self._add_dead_letter(connection, delivery, failure)
            self._commit_marks(connection, marks)

        await self._write(write)
        self._events.stats.errors[self.consumer.name, "Crashed"] += 1
        self._count("dead")
        self._done(delivery, marks)
        log.error("event dead", consumer=self.consumer.name, event_id=delivery.arrived.event_id, error=text)

    def _said_about(self, error: Exception) -> Classify:
        if self.consumer.classify is None:
            return None
        try:
            return self.consumer.classify(error)
        except Exception as mistake:
            # A hook that fails must not lose what it was asked about.
            log.error("classify failed", consumer=self.consumer.name, exc_info=mistake)
            return None

    def _add_dead_letter(self, connection: Connection, delivery: _Delivery, failure: Failure) -> None:
        at = self.inbox.now(connection)
        letter = dead_letter(self.consumer.name, delivery.arrived, delivery.kept, delivery.event, failure, at)
        try:
            self._events.outbox.add(connection, letter)
        except InvalidInput:
            self._events.outbox.add(connection, without_original(letter))

    # --- writing ---

    async def _write(self, function: Callable[[Connection], T]) -> T:
        return await self._until_answered(lambda: self._database.grouped(function))

    async def _until_answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """Until the database has answered: what was worked out is not thrown away because it was away for a moment. If
        nobody knows whether it took effect, the second time finds out."""
        failures = 0
        while True:
            try:
                return await call()
            except StoreUnavailable as error:
                if self._is_stopping:
                    raise
                failures += 1
                pause = min(0.1 * 2 ** min(failures - 1, 8), _LONGEST_PAUSE) * (0.5 + self._chance())
                if failures & (failures - 1) == 0:
                    log.warning("outcome waits for the database", consumer=self.consumer.name, error=str(error))
                await asyncio.sleep(pause)

    def _commit_marks(self, connection: Connection, marks: dict[Place, Any]) -> None:
        if self._reader is not None and self._reader.is_committed_within and marks:
            self._reader.commit_within(connection, marks)

    @property
    def _is_committed_within(self) -> bool:
        return self._reader is not None and self._reader.is_committed_within

    def _done(self, delivery: _Delivery, marks: dict[Place, Any] | None = None) -> None:
        delivery.is_over = True
        for place, offset in delivery.offsets:
            self.progress.done(place, offset)
        if marks and self._is_committed_within:
            self.progress.committed(marks)

    def _count(self, outcome: str) -> None:
        self._events.stats.handled[self.consumer.name, outcome] += 1

    # --- coming and going ---

    def _start(self, job: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._jobs.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("delivery failed", consumer=self.consumer.name, exc_info=error)

    def _close(self, delivery: _Delivery) -> None:
        self._open.pop(delivery.arrived.event_id, None)
        self._freed.set()

    def keep_only(self, places: Collection[Place]) -> None:
        """Places that are somebody else's by now are not ours to commit. What runs goes on: it is fenced."""
        self.progress.forget(places)

    def renew(self) -> None:
        """Keep what is open here. On any thread."""
        ids = list(self._open)
        if ids:
            self._database.write_blocking(lambda connection: self.inbox.renew(connection, ids))

    async def close(self, seconds: float) -> None:
        """Let what runs come to its end, for so long; what has not begun, or not ended, is given back."""
        self._is_stopping = True
        try:
            if self._jobs:
                await asyncio.wait(list(self._jobs), timeout=seconds)
        finally:
            # Also if nobody waits that long: what is not given back would count as a crash.
            await self._give_rest_back()

    async def _give_rest_back(self) -> None:
        for job in list(self._jobs):
            job.cancel()
        if self._jobs:
            await asyncio.wait(list(self._jobs))
        await self._endings.drain()
        left = [one.arrived.event_id for one in self._open.values()]
        if left:
            with suppress(StoreUnavailable):  # then their leases end by themselves
                await self._database.write(lambda connection: self.inbox.give_back(connection, left))
        self._open.clear()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _executor(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                self.consumer.concurrency, thread_name_prefix=f"rota-consumer-{self.consumer.name}"
            )
        return self._threads


def _ids(endings: Sequence[_Ending]) -> list[str]:
    return [ending.delivery.arrived.event_id for ending in endings]


def _lost(ending: _Ending) -> LeaseLost:
    event_id = ending.delivery.arrived.event_id
    return LeaseLost(f"The event {event_id} is another instance's by now; its effect is left out.")


def _joined(endings: Sequence[_Ending]) -> list[Callable[[Connection], object]]:
    """The effects of endings, each in the context of its handler; those that are one call for many, as one."""
    joint: defaultdict[Any, list[Any]] = defaultdict(list)
    single: list[Callable[[Connection], object]] = []
    for ending in endings:
        effect = ending.effect
        if isinstance(effect, JointEffect):
            several = cast("JointEffect[Any]", effect)
            joint[several.run].append(several.item)
        elif effect is not None:
            single.append(partial(ending.context.run, effect))
    return [*(partial(_run_joint, run, items) for run, items in joint.items()), *single]


def _run_joint(
    run: Callable[[Connection, Sequence[Any]], object], items: Sequence[Any], connection: Connection
) -> None:
    run(connection, items)


class _Read(NamedTuple):
    """What a message says; without an event, what is wrong with it."""

    event: Event | None
    problem: str | None


def _read(message: Message) -> _Read:
    try:
        place, headers = message.place, message.headers
        return _Read(decode(message.value, topic=place.topic, key=message.key, headers=headers), None)
    except InvalidInput as error:
        return _Read(None, str(error))


def _delivery_of(message: Message, read: _Read, *, event_id: str | None = None) -> _Delivery:
    place, (event, problem) = message.place, read
    kept = Kept(
        partition=place.partition,
        offset=str(message.offset),
        headers=dict(message.headers),
        value=message.value.decode(errors="replace"),
    )
    # What has no id of its own has a place of its own.
    named = event_id or (f"{place.topic}/{place.partition}/{message.offset}"[:255] if event is None else event.event_id)
    assert named is not None
    user_id = None if event is None else event.user_id
    # What others have sent without a key wants no order.
    key = message.key or named
    return _Delivery(Arrived(named, place.topic, key, user_id, keep(kept)), event, kept, problem)
