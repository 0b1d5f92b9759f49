"""Sending: the thread with the producer, and the groups of messages on their way."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from rota.events.buses.base import BusAway, Outgoing, Refused
from rota.events.buses.kafka.driver import LOOK_SECONDS, SILENT, DriverLog, Settings, away, is_fatal
from rota.events.buses.kafka.threads import CLOSE_SECONDS, joined, resolve, tell
from rota.events.buses.kafka.topics import Topics
from rota.logs import get_logger

if TYPE_CHECKING:  # the driver is optional, and takes a while to import
    from confluent_kafka import KafkaError, Producer
    from confluent_kafka import Message as KafkaMessage

__all__ = ["SEND_SECONDS", "Answer", "Sender"]

log = get_logger("rota.events")

Answer = Refused | BusAway | None

SEND_SECONDS: Final = 6.0
"""How long a group may take: the driver looks only once a second whether a message's time is over."""
SEND_SLICE: Final = 0.005
"""How long a thread waits for Kafka before it looks whether somebody wants something of it."""


class _Parcel:
    """A group on its way, and what has become of each of its messages."""

    def __init__(self, group: Sequence[Outgoing], loop: asyncio.AbstractEventLoop) -> None:
        self.group = group
        self.future: asyncio.Future[Sequence[Answer]] = loop.create_future()
        self.deadline = time.monotonic() + SEND_SECONDS
        self.open = set(range(len(group)))
        self.crowded: list[int] = []
        """Was refused, but maybe for its neighbours: to be tried alone."""
        self._answers: list[Answer] = [None] * len(group)

    def settle(self, number: int, answer: Answer) -> None:
        if number in self.open:
            self.open.discard(number)
            self._answers[number] = answer

    def give_up(self, answer: BusAway) -> None:
        for number in list(self.open):
            self.settle(number, answer)

    def hand_back(self) -> None:
        """On the loop."""
        resolve(self.future, self._answers)


class Sender:
    """The thread with the producer."""

    def __init__(self, settings: Settings, topics: Topics, name: str) -> None:
        self._settings = settings
        self._topics = topics
        self._name = name
        self._inbox: queue.SimpleQueue[_Parcel | None] = queue.SimpleQueue()
        self._parcels: list[_Parcel] = []
        self._trouble = SILENT
        """The last thing that was heard of the connections."""
        self._is_broken = False
        self._is_closing = False
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._producer = self._connect()
        self._thread = threading.Thread(target=self._work, name="rota-kafka-sender", daemon=True)
        self._thread.start()

    async def send(self, group: Sequence[Outgoing]) -> Sequence[Answer]:
        parcel = _Parcel(group, self._loop)
        self._inbox.put(parcel)
        return await parcel.future

    async def close(self) -> None:
        self._inbox.put(None)
        await joined(self._thread, self._ended)

    # --- on the thread ---

    def _work(self) -> None:
        try:
            while not self._is_closing or self._parcels:
                self._step()
        finally:
            self._producer.purge()
            del self._producer
            tell(self._loop, self._ended.set)

    def _step(self) -> None:
        try:
            self._take_in()
            self._producer.poll(SEND_SLICE if self._parcels else 0)
            self._try_alone()
        except Exception as error:
            # Nobody is to wait for ever for an answer because of one message that went wrong here.
            log.exception("kafka.sender_failed", bus=self._name)
            self._break(f"the producer has failed: {error}")
        if self._is_broken:
            self._rebuild()
        self._hand_back()

    def _break(self, reason: str) -> None:
        self._is_broken = True
        self._trouble = reason

    def _connect(self) -> Producer:
        from confluent_kafka import Producer

        return Producer({**self._settings, "error_cb": self._hear}, logger=DriverLog())

    def _hear(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError as Code

        if is_fatal(error):
            self._break(error.str())
        elif error.code() != Code._ALL_BROKERS_DOWN:  # noqa: SLF001 - it says less than what came before
            self._trouble = error.str()

    def _take_in(self) -> None:
        """Send what has come; wait for something if there is nothing else to do."""
        with suppress(queue.Empty):
            # Not for ever: what the driver wants to say meanwhile would pile up.
            parcel = self._inbox.get(timeout=LOOK_SECONDS) if not self._parcels else self._inbox.get_nowait()
            while True:
                self._start(parcel)
                parcel = self._inbox.get_nowait()

    def _start(self, parcel: _Parcel | None) -> None:
        if parcel is None:
            self._is_closing = True
            for late in self._parcels:
                late.deadline = min(late.deadline, time.monotonic() + CLOSE_SECONDS / 2)
            return
        self._parcels.append(parcel)
        problems = self._topics.ensure({message.topic for message in parcel.group})
        for number, message in enumerate(parcel.group):
            if message.topic in problems:
                parcel.settle(number, problems[message.topic])
            else:
                self._produce(parcel, number, self._delivered)

    def _produce(self, parcel: _Parcel, number: int, delivered: Callable[..., None]) -> None:
        from confluent_kafka import KafkaException

        message = parcel.group[number]
        try:
            self._producer.produce(
                message.topic,
                value=message.value,
                key=message.key.encode(),
                headers=[(name, value.encode()) for name, value in message.headers.items()],
                on_delivery=partial(delivered, parcel, number),
            )
        except BufferError:
            parcel.settle(number, away(self._name, "too much waits to be sent already"))
        except KafkaException as error:
            parcel.settle(number, self._answer(cast("KafkaError", error.args[0]), message))

    def _delivered(self, parcel: _Parcel, number: int, error: KafkaError | None, _message: KafkaMessage) -> None:
        if error is not None and _is_about_a_batch(error) and len(parcel.group) > 1:
            parcel.crowded.append(number)
        else:
            self._delivered_alone(parcel, number, error, _message)

    def _delivered_alone(self, parcel: _Parcel, number: int, error: KafkaError | None, _message: KafkaMessage) -> None:
        if error is None:
            self._trouble = SILENT  # whatever was heard before is over
        parcel.settle(number, None if error is None else self._answer(error, parcel.group[number]))

    def _answer(self, error: KafkaError, message: Outgoing) -> Refused | BusAway:
        from confluent_kafka import KafkaError as Code

        if is_fatal(error):
            self._break(error.str())
        if error.code() in (Code.MSG_SIZE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE):
            return Refused(f"It has {len(message.value):,} bytes, which is too large for Kafka: {error.str()}.")
        if error.code() in (Code.TOPIC_EXCEPTION, Code.INVALID_RECORD, Code._INVALID_ARG):  # noqa: SLF001
            return Refused(f"Kafka refuses it for the topic {message.topic!r}: {error.str()}.")
        self._topics.forget(message.topic)
        is_late = error.code() in (Code._MSG_TIMED_OUT, Code._TIMED_OUT)  # noqa: SLF001
        return away(self._name, f"{error.str()}; {self._trouble}" if is_late else error.str())

    def _try_alone(self) -> None:
        """Brokers refuse a batch as a whole. Sent with nothing else on the way, each message gets its own answer."""
        for parcel in self._parcels:
            while parcel.crowded and parcel.open <= set(parcel.crowded):
                number = parcel.crowded.pop(0)
                self._producer.flush(max(0.0, parcel.deadline - time.monotonic()))
                self._produce(parcel, number, self._delivered_alone)
                while number in parcel.open and time.monotonic() < parcel.deadline:
                    self._producer.poll(SEND_SLICE)

    def _rebuild(self) -> None:
        """A producer that had a fatal error takes nothing any more. What it had is sent again by whoever sent it."""
        log.warning("kafka.producer_rebuilt", bus=self._name, reason=self._trouble)
        self._producer.purge()
        self._producer.poll(0)
        for parcel in self._parcels:
            parcel.give_up(away(self._name, self._trouble))
        self._producer = self._connect()
        self._is_broken = False

    def _hand_back(self) -> None:
        """Tell the loop once of all that is done, or takes too long."""
        now = time.monotonic()
        for parcel in self._parcels:
            if now >= parcel.deadline:
                parcel.give_up(away(self._name, self._trouble))
        done = [parcel for parcel in self._parcels if not parcel.open]
        if done:
            self._parcels = [parcel for parcel in self._parcels if parcel.open]
            tell(self._loop, _hand_back_all, done)


def _is_about_a_batch(error: KafkaError) -> bool:
    from confluent_kafka import KafkaError as Code

    return error.code() in (Code.MSG_SIZE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE, Code.INVALID_RECORD)


def _hand_back_all(parcels: Iterable[_Parcel]) -> None:
    for parcel in parcels:
        parcel.hand_back()
