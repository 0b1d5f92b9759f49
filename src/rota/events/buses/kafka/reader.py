"""Reading: the thread with a consumer, and the shelves where the loop finds what it has read."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from sqlalchemy import Connection

from rota.events.buses.base import BusReader, Message, Place
from rota.events.buses.kafka.driver import (
    LOOK_SECONDS,
    SILENT,
    DriverLog,
    Settings,
    away,
    is_fatal,
    is_silence,
    partitions_of,
)
from rota.events.buses.kafka.threads import joined, resolve, tell
from rota.events.buses.kafka.topics import Topics
from rota.logs import get_logger

if TYPE_CHECKING:  # the driver is optional, and takes a while to import
    from confluent_kafka import Consumer, KafkaError, TopicPartition
    from confluent_kafka import Message as KafkaMessage

__all__ = ["Reader"]

log = get_logger("rota.events")

COMMIT_SECONDS: Final = 5.0
"""How long somebody waits for a commit. What is not through by then is tried again."""
READ_SLICE: Final = 0.05
"""How long a thread waits for Kafka before it looks whether somebody wants something of it."""

ROOM: Final = 2_000
"""How many messages wait for a fetch before no more are read."""
ROOM_BYTES: Final = 32 * 1024 * 1024
READ_AT_ONCE: Final = 500
REST_SECONDS: Final = 1.0
"""How long a full reader just waits. Only then it pauses: that throws away what the driver has read ahead."""


class _Shelf:
    """What was read of one place and not fetched yet."""

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.bytes = 0

    def put(self, message: Message) -> None:
        self.messages.append(message)
        self.bytes += len(message.value)

    def take(self, count: int) -> Sequence[Message]:
        taken = [self.messages.popleft() for _ in range(min(count, len(self.messages)))]
        self.bytes -= sum(len(message.value) for message in taken)
        return taken


class Reader(BusReader):
    """The thread with a consumer, and the shelves between it and the loop."""

    def __init__(
        self,
        settings: Settings,
        topics: Sequence[str],
        known: Topics,
        name: str,
        forget: Callable[[Reader], None],
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._known = known
        self._name = name
        self._forget = forget
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_woken = False
        # Between the threads, under the lock; a place without a shelf is not ours.
        self._changed = threading.Condition()
        self._shelves: dict[Place, _Shelf] = {}
        self._paused: frozenset[Place] = frozenset()
        self._asked: dict[Place, int] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._is_closing = False
        self._trouble: str | None = None
        """Why nothing can be read now."""
        self._turn = 0
        # The thread's own.
        self._held: frozenset[Place] = frozenset()
        self._flying: dict[Place, int] = {}
        self._answered_when_landed: list[asyncio.Future[None]] = []
        self._commit_again_at = 0.0
        self._has_told_of_commits = False
        self._full_since: float | None = None
        self._last_error = SILENT
        self._is_suspect = False
        self._is_away = False
        self._look_again_at = 0.0
        self._is_broken = False
        self._thread = threading.Thread(target=self._work, name=f"rota-kafka-{settings['group.id']}", daemon=True)
        self._thread.start()

    # --- on the loop ---

    async def fetch(self, limit: int, seconds: float) -> Sequence[Message]:
        deadline = self._loop.time() + seconds
        while True:
            self._news.clear()
            taken = self._take(limit)
            left = deadline - self._loop.time()
            if taken or self._is_woken or left <= 0:
                break
            had_trouble = self._trouble is not None
            await self._wait_for_news(min(left, LOOK_SECONDS) if had_trouble else left)
            if had_trouble:
                taken = self._take(limit)
                break
        self._is_woken = False
        if not taken and self._trouble is not None:
            raise away(self._name, self._trouble)
        return taken

    async def _wait_for_news(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    def _take(self, limit: int) -> Sequence[Message]:
        """Up to so many, some of each place: none waits because another has much."""
        taken: list[Message] = []
        with self._changed:
            ripe = [shelf for place, shelf in self._shelves.items() if shelf.messages and place not in self._paused]
            self._turn += 1
            for number in range(len(ripe)):
                share = -(-(limit - len(taken)) // (len(ripe) - number))
                taken += ripe[(number + self._turn) % len(ripe)].take(share)
            self._changed.notify()
        return taken

    def places(self) -> Collection[Place]:
        with self._changed:
            return frozenset(self._shelves)

    def commit_within(self, connection: Connection, done: Mapping[Place, Any]) -> None:
        """Kafka has no part in the database's transaction; `commit` follows it."""

    async def commit(self, done: Mapping[Place, Any]) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        with self._changed:
            if self._is_closing:
                return
            self._ask(done)
            if self._trouble is not None:
                return  # it is made when the brokers are back
            self._waiting.append(future)
            self._changed.notify()
        await asyncio.wait([future], timeout=COMMIT_SECONDS)

    def _ask(self, done: Mapping[Place, int]) -> None:
        """Have these committed, as far as they are ours. Nothing goes back."""
        for place, offset in done.items():
            if place in self._shelves:
                self._asked[place] = max(offset, self._asked.get(place, offset))

    def pause(self, places: Collection[Place]) -> None:
        with self._changed:
            self._paused = frozenset(places)
            self._changed.notify()
        self._news.set()

    def wake(self) -> None:
        self._is_woken = True
        self._news.set()

    async def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        await joined(self._thread, self._ended)
        self._forget(self)

    # --- on the thread ---

    def _work(self) -> None:
        try:
            self._known.ensure(self._topics)
            while not self._is_closing:
                self._read_until_broken()
        finally:
            tell(self._loop, self._ended.set)

    def _read_until_broken(self) -> None:
        """Be one member of the group, until it is to be left or goes wrong; then another one takes its place."""
        consumer = self._connect()
        try:
            while not self._is_closing and not self._is_broken:
                self._step(consumer)
        except Exception as error:
            log.exception("kafka.reader_failed", reader=self._name)
            self._break(f"the consumer has failed: {error}")
        self._leave(consumer)
        with self._changed:
            self._changed.wait_for(lambda: self._is_closing, LOOK_SECONDS)

    def _connect(self) -> Consumer:
        from confluent_kafka import Consumer

        self._is_broken = False
        settings = {**self._settings, "error_cb": self._hear, "on_commit": self._landed}
        consumer = Consumer(settings, logger=DriverLog())
        consumer.subscribe(list(self._topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        return consumer

    def _step(self, consumer: Consumer) -> None:
        self._commit(consumer)
        if self._is_just_full():
            return
        self._hold(consumer, frozenset(self._shelves) if self._full_since is not None else self._paused)
        self._read(consumer)
        self._look(consumer)

    def _leave(self, consumer: Consumer) -> None:
        """Say what is done, and go. Brokers that are away are not waited for."""
        if self._trouble is None and not self._is_broken:
            self._commit(consumer, is_last=True)
            deadline = time.monotonic() + LOOK_SECONDS
            while self._flying and time.monotonic() < deadline:
                self._read(consumer)
        consumer.close()
        with self._changed:
            self._shelves.clear()
            self._asked.clear()
            answered, self._waiting = [*self._waiting, *self._answered_when_landed], []
        self._answered_when_landed = []
        self._flying.clear()
        self._held = frozenset()
        tell(self._loop, _resolve_all, answered)

    # --- reading ---

    def _is_just_full(self) -> bool:
        """Whether there is no room, but maybe soon: then this has waited for it a little."""
        with self._changed:
            if self._has_room():
                self._full_since = None
                return False
            now = time.monotonic()
            self._full_since = self._full_since or now
            if now - self._full_since >= REST_SECONDS:
                return False
            self._changed.wait(READ_SLICE)
            return True

    def _has_room(self) -> bool:
        # What is paused does not count: nobody takes it away, and the others would starve.
        counted = [shelf for place, shelf in self._shelves.items() if place not in self._paused]
        part = 1 if self._full_since is None else 2  # once full, until half of it is gone
        return (
            sum(len(shelf.messages) for shelf in counted) < ROOM // part
            and sum(shelf.bytes for shelf in counted) < ROOM_BYTES // part
        )

    def _hold(self, consumer: Consumer, places: Collection[Place]) -> None:
        """Have the driver read nothing of these, and of all others."""
        with self._changed:
            ours = frozenset(self._shelves)
        wanted = ours & frozenset(places)
        held = self._held & ours
        if wanted == held:
            return
        self._held = wanted
        from confluent_kafka import KafkaException

        with suppress(KafkaException):  # it was taken from us this moment
            consumer.pause(partitions_of(wanted - held))
            consumer.resume(partitions_of(held - wanted))

    def _read(self, consumer: Consumer) -> None:
        """What Kafka has, and the calls to us that the driver makes meanwhile."""
        message = consumer.poll(READ_SLICE)
        count = 0
        while message is not None:
            self._put(message)
            count += 1
            message = consumer.poll(0) if count < READ_AT_ONCE else None
        if count:
            tell(self._loop, self._news.set)

    def _put(self, message: KafkaMessage) -> None:
        error = message.error()
        if error is not None:
            self._hear_of_messages(error)
            return
        made = _message(message)
        with self._changed:
            shelf = self._shelves.get(made.place)
            if shelf is not None:
                shelf.put(made)
            self._trouble = None
        self._is_suspect = False

    def _assigned(self, _consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        with self._changed:
            for place in _places(partitions):
                self._shelves[place] = _Shelf()
            self._trouble = None
        tell(self._loop, self._news.set)

    def _revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        # The driver waits for this commit before it gives the places back.
        self._commit(consumer, is_last=True)
        self._lost(consumer, partitions)

    def _lost(self, _consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        with self._changed:
            for place in _places(partitions):
                self._shelves.pop(place, None)
                self._asked.pop(place, None)
        self._held -= frozenset(_places(partitions))
        tell(self._loop, self._news.set)

    # --- committing ---

    def _commit(self, consumer: Consumer, *, is_last: bool = False) -> None:
        """Have Kafka note what is done: one request at a time, which takes along all that was asked for meanwhile."""
        with self._changed:
            is_due = bool(self._waiting) or (bool(self._asked) and time.monotonic() >= self._commit_again_at)
            if (self._flying or not is_due) and not is_last:
                return
            asked, self._asked = self._asked, {}
            self._answered_when_landed += self._waiting
            self._waiting = []
        self._flying.update(asked)
        if asked:
            self._request_commit(consumer, asked)
        else:
            self._answer_if_landed()

    def _request_commit(self, consumer: Consumer, asked: Mapping[Place, int]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        partitions = [TopicPartition(place.topic, place.partition, offset + 1) for place, offset in asked.items()]
        try:
            consumer.commit(offsets=partitions, asynchronous=True)
        except KafkaException as error:
            self._landed(cast("KafkaError", error.args[0]), partitions)

    def _landed(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """A commit was answered. What failed is tried again, unless it is somebody else's by now."""
        failed: dict[Place, int] = {}
        for partition in partitions:
            place = Place(partition.topic, partition.partition)
            if self._flying.get(place) == partition.offset - 1:
                del self._flying[place]
            trouble = error or partition.error
            if trouble is not None:
                failed[place] = partition.offset - 1
                self._tell_of_commits(trouble)
        with self._changed:
            self._ask(failed)
        if failed:
            self._commit_again_at = time.monotonic() + LOOK_SECONDS
        else:
            self._has_told_of_commits = False
        self._answer_if_landed()

    def _answer_if_landed(self) -> None:
        if not self._flying and self._answered_when_landed:
            answered, self._answered_when_landed = self._answered_when_landed, []
            tell(self._loop, _resolve_all, answered)

    def _tell_of_commits(self, error: KafkaError) -> None:
        """Once, until one succeeds: it is harmless. At worst messages come again, and are passed over."""
        if not self._has_told_of_commits:
            self._has_told_of_commits = True
            log.info("kafka.commit_failed", reader=self._name, reason=error.str())

    # --- the brokers ---

    def _hear(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError as Code

        if is_fatal(error):
            self._break(error.str())
            return
        self._is_suspect = self._is_suspect or is_silence(error.code())
        if error.code() != Code._ALL_BROKERS_DOWN:  # noqa: SLF001 - it says less than what came before
            self._last_error = error.str()

    def _hear_of_messages(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError as Code

        if is_fatal(error):
            self._break(error.str())
        elif error.code() in (Code.TOPIC_AUTHORIZATION_FAILED, Code.GROUP_AUTHORIZATION_FAILED):
            self._set_trouble(error.str())
        else:
            # A topic that is not there yet, a rebalance, a late poll: the driver gets over it by itself.
            log.debug("kafka.reader_error", reader=self._name, reason=error.str())

    def _break(self, reason: str) -> None:
        """A consumer that had a fatal error reads nothing any more."""
        log.warning("kafka.consumer_rebuilt", reader=self._name, reason=reason)
        self._is_broken = True
        self._set_trouble(reason)

    def _look(self, consumer: Consumer) -> None:
        """Ask brokers that seem to be away. The driver says when they go, but not when they are back."""
        if not self._is_suspect or time.monotonic() < self._look_again_at:
            return
        from confluent_kafka import KafkaException

        try:
            consumer.list_topics(self._topics[0], timeout=LOOK_SECONDS)
        except KafkaException:
            self._is_away = True
            self._set_trouble(self._last_error)
        else:
            self._is_suspect = False
            if self._is_away:
                self._is_away = False
                self._set_trouble(None)
                self._known.ensure(self._topics)  # at the start there was nobody to make them
        self._look_again_at = time.monotonic() + LOOK_SECONDS

    def _set_trouble(self, reason: str | None) -> None:
        with self._changed:
            self._trouble = reason
        tell(self._loop, self._news.set)


def _resolve_all(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        resolve(future)


def _message(message: KafkaMessage) -> Message:
    """A message of the driver as one of ours. What others have written may have no key, value or headers."""
    return Message(
        place=Place(message.topic() or "", message.partition() or 0),
        offset=message.offset() or 0,
        key=_text(message.key()),
        headers={name: _text(value) for name, value in message.headers() or ()},
        value=message.value() or b"",
    )


def _text(value: str | bytes | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def _places(partitions: Iterable[TopicPartition]) -> Sequence[Place]:
    return [Place(partition.topic, partition.partition) for partition in partitions]
