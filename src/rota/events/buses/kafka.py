"""Kafka: for those who have one already, or more events than one database carries.

The driver is C with threads of its own, and its calls block. So each producer and each consumer lives on one thread
that nobody else's calls enter; the event loop hands over groups, and is told of many results at once.

Which partition a key belongs to is Kafka's own affair, and the same as Java's clients find: a topic may have been made
by others, with any number of partitions.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast
from urllib.parse import parse_qsl, unquote

from sqlalchemy import Connection

from rota.clock import Instant
from rota.config.urls import masked
from rota.errors import InvalidConfig, InvalidInput
from rota.events.buses.base import Bus, BusAway, BusReader, Message, Outgoing, Place, Refused
from rota.logs import get_logger

if TYPE_CHECKING:  # the driver is optional, and takes a while to import
    from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
    from confluent_kafka import Message as KafkaMessage

__all__ = ["KafkaBus"]

log = get_logger("rota.events")

Answer = Refused | BusAway | None
Settings = dict[str, Any]
Made = TypeVar("Made")

MESSAGE_SECONDS: Final = 5.0
"""How long Kafka may take for a message."""
SEND_SECONDS: Final = 6.0
"""How long a group may take: the driver looks only once a second whether a message's time is over."""
ASK_SECONDS: Final = 3.0
"""How long Kafka may take to answer a question."""
COMMIT_SECONDS: Final = 5.0
"""How long somebody waits for a commit. What is not through by then is tried again."""
CLOSE_SECONDS: Final = 6.0
"""How long closing may take: in the midst of a rebalance the driver gives up to leave after five seconds."""
LOOK_SECONDS: Final = 1.0
"""How often brokers that went away are asked whether they are back, and commits that failed are tried again."""
SEND_SLICE: Final = 0.002
READ_SLICE: Final = 0.01
"""How long a thread waits for Kafka before it looks whether somebody wants something of it."""

ROOM: Final = 2_000
"""How many messages wait for a fetch before no more are read."""
ROOM_BYTES: Final = 32 * 1024 * 1024
READ_AT_ONCE: Final = 500
REST_SECONDS: Final = 1.0
"""How long a full reader just waits. Only then it pauses: that throws away what the driver has read ahead."""

_OWN: Final = frozenset(
    """
    acks auto.offset.reset bootstrap.servers client.id default.topic.config delivery.timeout.ms enable.auto.commit
    enable.auto.offset.store enable.idempotence enable.partition.eof group.id logger message.timeout.ms
    metadata.broker.list on_commit on_delivery request.required.acks transactional.id
    """.split()  # noqa: SIM905 - names in a row are read faster than a list of strings
)
"""What Rota's promises rest on; nobody else sets it."""
_FOR_CONSUMERS: Final = frozenset(
    """
    allow.auto.create.topics auto.commit.interval.ms auto.commit.enable check.crcs consume.callback.max.messages
    coordinator.query.interval.ms fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes
    fetch.queue.backoff.ms fetch.wait.max.ms group.instance.id group.protocol group.protocol.type
    group.remote.assignor heartbeat.interval.ms isolation.level max.partition.fetch.bytes max.poll.interval.ms
    offset.store.method offset.store.path offset.store.sync.interval.ms partition.assignment.strategy
    queued.max.messages.kbytes queued.min.messages session.timeout.ms
    """.split()  # noqa: SIM905 - names in a row are read faster than a list of strings
)
_FOR_PRODUCERS: Final = frozenset(
    """
    batch.num.messages batch.size compression.codec compression.level compression.type delivery.report.only.error
    enable.gapless.guarantee linger.ms message.send.max.retries msg_order_cmp partitioner
    queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages
    queue.buffering.max.ms queuing.strategy request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
    sticky.partitioning.linger.ms transaction.timeout.ms
    """.split()  # noqa: SIM905 - names in a row are read faster than a list of strings
)
"""What is for one side alone; the driver would warn of it on the other. All else is for both."""
_SILENT: Final = "its brokers do not answer"


class _Address(NamedTuple):
    """What a URL says."""

    name: str
    given: Collection[str]
    """The names of what stands behind the `?`."""
    common: Settings
    producer: Settings
    consumer: Settings


class KafkaBus(Bus):
    """Events travel through Kafka: `kafka://host1:9092,host2:9092?security.protocol=SASL_SSL&group.protocol=consumer`.

    Whatever stands behind the `?` is handed to librdkafka, which both sides are made of.
    """

    def __init__(self, url: str, *, partitions: int = 16) -> None:
        if find_spec("confluent_kafka") is None:
            raise InvalidConfig("Kafka needs a driver: pip install 'rota[kafka]'.")
        self._address = _read_url(url)
        _try_out(self._address)
        self.name = self._address.name
        self._topics = _Topics(self._address, partitions)
        self._sender: _Sender | None = None
        self._readers: set[_Reader] = set()

    async def open(self) -> None:
        if self._sender is None:
            self._sender = _Sender(_producer_settings(self._address), self._topics, self.name)

    async def close(self) -> None:
        sender, self._sender = self._sender, None
        async with asyncio.TaskGroup() as group:
            for reader in list(self._readers):
                group.create_task(reader.close())
            if sender is not None:
                group.create_task(sender.close())

    async def publish(self, group: Sequence[Outgoing]) -> Sequence[Answer]:
        if self._sender is None:
            raise BusAway(f"The bus {self.name} is not open. Open it before anything is published.")
        answers = await self._sender.send(group)
        if answers and all(isinstance(answer, BusAway) for answer in answers):
            raise cast("BusAway", answers[0])
        return answers

    async def reader(self, consumer: str, topics: Collection[str], *, instance: str) -> BusReader:
        settings = _consumer_settings(self._address, consumer, instance)
        reader = _Reader(settings, sorted(topics), self._topics, f"{self.name} as {consumer}", self._readers.discard)
        self._readers.add(reader)
        return reader

    async def lag(self, consumer: str, topics: Collection[str]) -> Mapping[str, int]:
        return await _aside("lag", partial(_lag, self._address, consumer, topics))

    async def replay(self, consumer: str, topics: Collection[str], since: Instant) -> None:
        await _aside("replay", partial(_replay, self._address, consumer, topics, since))


# --- what the URL says ---


def _read_url(url: str) -> _Address:
    """The settings in a URL. Names that are wrong, or not to be set, are refused."""
    place, _, query = url.removeprefix("kafka://").partition("?")
    user, _, hosts = place.rpartition("@")
    hosts = hosts.rstrip("/")
    if not hosts or "/" in hosts or not all(hosts.split(",")):
        raise InvalidConfig(
            f"{masked(url.partition('?')[0])!r} names no brokers. Write it like 'kafka://host1:9092,host2:9092'."
        )
    given = dict(parse_qsl(query, keep_blank_values=True))
    if user:
        name, _, password = user.partition(":")
        given |= {"sasl.username": unquote(name), "sasl.password": unquote(password)}
    for setting in given:
        if setting in _OWN or setting.endswith("_cb"):
            raise InvalidConfig(f"The bus URL sets {setting!r}, which Rota sets itself. Leave it out.")
    return _Address(
        name=f"kafka://{hosts}",
        given=list(given),
        common={
            "bootstrap.servers": hosts,
            "client.id": "rota",
            "reconnect.backoff.max.ms": 1_000,
            "topic.metadata.refresh.interval.ms": 5_000,
            **{name: value for name, value in given.items() if name not in _FOR_CONSUMERS | _FOR_PRODUCERS},
        },
        producer={name: value for name, value in given.items() if name in _FOR_PRODUCERS},
        consumer={name: value for name, value in given.items() if name in _FOR_CONSUMERS},
    )


def _producer_settings(address: _Address) -> Settings:
    return {
        **address.common,
        "linger.ms": 2,
        "partitioner": "murmur2_random",
        **_without_aliases(address.producer),
        "acks": "all",
        "enable.idempotence": True,
        "message.timeout.ms": int(MESSAGE_SECONDS * 1_000),
    }


def _without_aliases(given: Settings) -> Settings:
    """The driver has two names for one thing; ours and somebody else's must not contradict each other."""
    renamed = {"queue.buffering.max.ms": "linger.ms"}
    return {renamed.get(name, name): value for name, value in given.items()}


def _consumer_settings(address: _Address, consumer: str, instance: str) -> Settings:
    defaults: Settings = {
        "allow.auto.create.topics": False,  # it would get the brokers' number of partitions, not ours
        "queued.max.messages.kbytes": 16_384,
        "socket.timeout.ms": 10_000,
    }
    if address.consumer.get("group.protocol") != "consumer":  # else the brokers decide who reads what
        defaults["partition.assignment.strategy"] = "cooperative-sticky"
        # A broker that comes back waits for whom it knew before it was away, for so long.
        defaults["session.timeout.ms"] = 6_000
    return {
        **defaults,
        **address.common,
        **address.consumer,
        "group.id": consumer,
        "client.id": instance,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
    }


def _try_out(address: _Address) -> None:
    """Have the driver look at the settings now. It connects to nobody: no brokers are named."""
    from confluent_kafka import Consumer, KafkaException, Producer

    try:
        # What was noted is not looked at: it would be that there are no brokers.
        Producer(_without_brokers(_producer_settings(address)), logger=_DriverLog())
        Consumer(_without_brokers(_consumer_settings(address, "trial", "trial")), logger=_DriverLog()).close()
    except (KafkaException, TypeError, ValueError) as error:
        reason = _reason(error)
        # The driver may call a setting by its other name.
        is_clear = not address.given or any(name in reason for name in address.given)
        named = "" if is_clear else f" It sets {', '.join(address.given)}."
        raise InvalidConfig(f"The URL of the bus {address.name} cannot be used: {reason}.{named}") from None


def _without_brokers(settings: Settings) -> Settings:
    return {name: value for name, value in settings.items() if name != "bootstrap.servers"}


# --- what the driver says ---


class _DriverLog:
    """Takes what librdkafka would print to the terminal. Of lost connections whoever needs them tells."""

    def log(self, level: int, form: str, *values: object) -> None:
        text = form % values
        is_grave = level >= logging.ERROR and not text.startswith(("FAIL ", "ERROR "))
        if is_grave or text.startswith("CONFWARN "):
            log.warning("kafka.driver", text=text)
        else:
            log.debug("kafka.driver", text=text)


def _reason(error: BaseException) -> str:
    """What an error of the driver says, without the dot at its end."""
    inner = error.args[0] if error.args else error
    text = cast("KafkaError", inner).str() if hasattr(inner, "str") else str(inner)
    return text.strip().removesuffix(".")


def _code(error: BaseException) -> int | None:
    inner = error.args[0] if error.args else None
    return cast("KafkaError", inner).code() if hasattr(inner, "code") else None


def _is_fatal(error: KafkaError) -> bool:
    """Whether the client that had it is of no use any more."""
    from confluent_kafka import KafkaError as Code

    return error.fatal() or error.code() == Code._FATAL  # noqa: SLF001 - the driver's own errors are called so


def _is_silence(code: int | None) -> bool:
    """Whether nobody has answered."""
    from confluent_kafka import KafkaError as Code

    return code in (
        Code._TIMED_OUT,  # noqa: SLF001 - the driver's own errors are called so
        Code._TRANSPORT,  # noqa: SLF001
        Code._ALL_BROKERS_DOWN,  # noqa: SLF001
        Code._RESOLVE,  # noqa: SLF001
        Code._AUTHENTICATION,  # noqa: SLF001
        Code._SSL,  # noqa: SLF001
    )


def _admin(address: _Address) -> Any:
    """A client for questions. The driver says of its methods only half of what they give."""
    from confluent_kafka.admin import AdminClient

    return AdminClient(address.common, logger=_DriverLog())


# --- threads ---


def _tell(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> None:
    """Call it on the loop, if there still is one: a process may end while a thread works."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)


async def _aside(name: str, work: Callable[[], Made]) -> Made:
    """What the work gives that blocks, done on a thread of its own."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Made] = loop.create_future()

    def run() -> None:
        try:
            _tell(loop, _resolve, done, work())
        except Exception as error:
            _tell(loop, _reject, done, error)

    thread = threading.Thread(target=run, name=f"rota-kafka-{name}", daemon=True)
    thread.start()
    await asyncio.wait([done])
    thread.join()  # it has nothing left to do
    return done.result()


def _resolve(future: asyncio.Future[Any], value: object = None) -> None:
    if not future.done():
        future.set_result(value)


def _reject(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


async def _joined(thread: threading.Thread, ended: asyncio.Event) -> None:
    """Wait until a thread has ended, but not for ever."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await ended.wait()
    except TimeoutError:
        log.warning("kafka.close_is_slow", thread=thread.name)
    else:
        thread.join()  # it has nothing left to do


# --- topics ---


class _Topics:
    """Which topics are there; makes those that are not. Each thread that asks makes a client of its own for it."""

    def __init__(self, address: _Address, partitions: int) -> None:
        self._address = address
        self._partitions = partitions
        self._known: set[str] = set()

    def forget(self, topic: str) -> None:
        """Look again when it is needed next: it may have been removed."""
        self._known.discard(topic)

    def ensure(self, topics: Collection[str]) -> Mapping[str, Refused | BusAway]:
        """Have these topics. Those that cannot be written to now, or ever, are given back with the reason."""
        missing = {topic for topic in topics if topic not in self._known}
        if not missing:
            return {}
        from confluent_kafka import KafkaException

        admin = _admin(self._address)
        try:
            cluster = admin.list_topics(timeout=ASK_SECONDS)
        except KafkaException as error:
            return {topic: _away(self._address.name, _reason(error)) for topic in missing}
        self._known |= missing & cluster.topics.keys()
        missing -= cluster.topics.keys()
        if cluster.controller_id not in cluster.brokers:
            # Nobody there makes topics when asked; maybe somebody does when they are written to.
            self._known |= missing
            return {}
        return self._make(admin, missing) if missing else {}

    def _make(self, admin: Any, topics: Collection[str]) -> Mapping[str, Refused | BusAway]:
        from confluent_kafka import KafkaError as Code
        from confluent_kafka.cimpl import NewTopic

        problems: dict[str, Refused | BusAway] = {}
        wanted = [NewTopic(topic, self._partitions, -1) for topic in topics]
        made: dict[str, Any] = admin.create_topics(wanted, request_timeout=ASK_SECONDS)
        for topic, future in made.items():
            error: BaseException | None = future.exception(ASK_SECONDS + 1)
            code = None if error is None else _code(error)
            if error is not None and code == Code.TOPIC_EXCEPTION:
                problems[topic] = Refused(f"Kafka takes no topic called {topic!r}: {_reason(error)}.")
            elif error is not None and _is_silence(code):
                problems[topic] = _away(self._address.name, _reason(error))
            else:
                self._known.add(topic)
                if error is not None and code != Code.TOPIC_ALREADY_EXISTS:
                    log.warning("kafka.topic_not_made", topic=topic, reason=_reason(error))
        return problems


def _away(name: str, reason: str) -> BusAway:
    return BusAway(f"The bus {name} is away: {reason}. It is tried again; see that its brokers run and can be reached.")


# --- sending ---


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

    def give_up(self, away: BusAway) -> None:
        for number in list(self.open):
            self.settle(number, away)

    def hand_back(self) -> None:
        """On the loop."""
        _resolve(self.future, self._answers)


class _Sender:
    """The thread with the producer."""

    def __init__(self, settings: Settings, topics: _Topics, name: str) -> None:
        self._settings = settings
        self._topics = topics
        self._name = name
        self._inbox: queue.SimpleQueue[_Parcel | None] = queue.SimpleQueue()
        self._parcels: list[_Parcel] = []
        self._trouble = _SILENT
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
        await _joined(self._thread, self._ended)

    # --- on the thread ---

    def _work(self) -> None:
        try:
            while not self._is_closing or self._parcels:
                self._step()
        finally:
            self._producer.purge()
            del self._producer
            _tell(self._loop, self._ended.set)

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

        return Producer({**self._settings, "error_cb": self._hear}, logger=_DriverLog())

    def _hear(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError as Code

        if _is_fatal(error):
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
            parcel.settle(number, _away(self._name, "too much waits to be sent already"))
        except KafkaException as error:
            parcel.settle(number, self._answer(cast("KafkaError", error.args[0]), message))

    def _delivered(self, parcel: _Parcel, number: int, error: KafkaError | None, _message: KafkaMessage) -> None:
        if error is not None and _is_about_a_batch(error) and len(parcel.group) > 1:
            parcel.crowded.append(number)
        else:
            self._delivered_alone(parcel, number, error, _message)

    def _delivered_alone(self, parcel: _Parcel, number: int, error: KafkaError | None, _message: KafkaMessage) -> None:
        if error is None:
            self._trouble = _SILENT  # whatever was heard before is over
        parcel.settle(number, None if error is None else self._answer(error, parcel.group[number]))

    def _answer(self, error: KafkaError, message: Outgoing) -> Refused | BusAway:
        from confluent_kafka import KafkaError as Code

        if _is_fatal(error):
            self._break(error.str())
        if error.code() in (Code.MSG_SIZE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE):
            return Refused(f"It has {len(message.value):,} bytes, which is too large for Kafka: {error.str()}.")
        if error.code() in (Code.TOPIC_EXCEPTION, Code.INVALID_RECORD, Code._INVALID_ARG):  # noqa: SLF001
            return Refused(f"Kafka refuses it for the topic {message.topic!r}: {error.str()}.")
        self._topics.forget(message.topic)
        is_late = error.code() in (Code._MSG_TIMED_OUT, Code._TIMED_OUT)  # noqa: SLF001
        return _away(self._name, f"{error.str()}; {self._trouble}" if is_late else error.str())

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
            parcel.give_up(_away(self._name, self._trouble))
        self._producer = self._connect()
        self._is_broken = False

    def _hand_back(self) -> None:
        """Tell the loop once of all that is done, or takes too long."""
        now = time.monotonic()
        for parcel in self._parcels:
            if now >= parcel.deadline:
                parcel.give_up(_away(self._name, self._trouble))
        done = [parcel for parcel in self._parcels if not parcel.open]
        if done:
            self._parcels = [parcel for parcel in self._parcels if parcel.open]
            _tell(self._loop, _hand_back_all, done)


def _is_about_a_batch(error: KafkaError) -> bool:
    from confluent_kafka import KafkaError as Code

    return error.code() in (Code.MSG_SIZE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE, Code.INVALID_RECORD)


def _hand_back_all(parcels: Iterable[_Parcel]) -> None:
    for parcel in parcels:
        parcel.hand_back()


# --- reading ---


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


class _Reader(BusReader):
    """The thread with a consumer, and the shelves between it and the loop."""

    def __init__(
        self,
        settings: Settings,
        topics: Sequence[str],
        known: _Topics,
        name: str,
        forget: Callable[[_Reader], None],
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
        self._last_error = _SILENT
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
            raise _away(self._name, self._trouble)
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
        await _joined(self._thread, self._ended)
        self._forget(self)

    # --- on the thread ---

    def _work(self) -> None:
        try:
            self._known.ensure(self._topics)
            while not self._is_closing:
                self._read_until_broken()
        finally:
            _tell(self._loop, self._ended.set)

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
        consumer = Consumer(settings, logger=_DriverLog())
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
        _tell(self._loop, _resolve_all, answered)

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
            consumer.pause(_partitions(wanted - held))
            consumer.resume(_partitions(held - wanted))

    def _read(self, consumer: Consumer) -> None:
        """What Kafka has, and the calls to us that the driver makes meanwhile."""
        message = consumer.poll(READ_SLICE)
        count = 0
        while message is not None:
            self._put(message)
            count += 1
            message = consumer.poll(0) if count < READ_AT_ONCE else None
        if count:
            _tell(self._loop, self._news.set)

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
        _tell(self._loop, self._news.set)

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
        _tell(self._loop, self._news.set)

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
            _tell(self._loop, _resolve_all, answered)

    def _tell_of_commits(self, error: KafkaError) -> None:
        """Once, until one succeeds: it is harmless. At worst messages come again, and are passed over."""
        if not self._has_told_of_commits:
            self._has_told_of_commits = True
            log.info("kafka.commit_failed", reader=self._name, reason=error.str())

    # --- the brokers ---

    def _hear(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError as Code

        if _is_fatal(error):
            self._break(error.str())
            return
        self._is_suspect = self._is_suspect or _is_silence(error.code())
        if error.code() != Code._ALL_BROKERS_DOWN:  # noqa: SLF001 - it says less than what came before
            self._last_error = error.str()

    def _hear_of_messages(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError as Code

        if _is_fatal(error):
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
        _tell(self._loop, self._news.set)


def _resolve_all(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        _resolve(future)


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


def _partitions(places: Iterable[Place]) -> list[TopicPartition]:
    from confluent_kafka import TopicPartition

    return [TopicPartition(place.topic, place.partition) for place in places]


# --- questions about a consumer ---

_LATEST: Final = -1
_EARLIEST: Final = -2
"""Times that stand for the end and the beginning, as in Kafka itself."""


def _lag(address: _Address, consumer: str, topics: Collection[str]) -> Mapping[str, int]:
    from confluent_kafka import KafkaException

    admin = _admin(address)
    try:
        places = _places_of(admin, topics)
        ends = _offsets(admin, places, _LATEST)
        done = _committed(admin, consumer, places)
        starts = _offsets(admin, places, _EARLIEST)
    except (KafkaException, TimeoutError) as error:
        raise _away(address.name, _reason(error)) from None
    lag = dict.fromkeys(topics, 0)
    for place in places:
        # What Kafka has removed by age is not to be done any more.
        lag[place.topic] += max(0, ends[place] - max(done.get(place, 0), starts[place]))
    return lag


def _replay(address: _Address, consumer: str, topics: Collection[str], since: Instant) -> None:
    from confluent_kafka import KafkaException

    admin = _admin(address)
    try:
        places = _places_of(admin, topics)
        ends = _offsets(admin, places, _LATEST)
        found = _offsets(admin, places, since)
        # Nothing was published since then: the end.
        _set_back(admin, consumer, {place: ends[place] if found[place] < 0 else found[place] for place in places})
    except (KafkaException, TimeoutError) as error:
        if _is_in_use(_code(error)):
            raise _in_use(consumer) from None
        raise _away(address.name, _reason(error)) from None


def _places_of(admin: Any, topics: Collection[str]) -> Sequence[Place]:
    """The partitions of those topics that are there. Of all topics: to ask for one by name might make it."""
    there = admin.list_topics(timeout=ASK_SECONDS).topics
    return [Place(topic, number) for topic in topics if topic in there for number in there[topic].partitions]


def _offsets(admin: Any, places: Sequence[Place], at: Instant) -> Mapping[Place, int]:
    """The first offset of each place that was written at that time or later, -1 if there is none."""
    if not places:
        return {}
    from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage] - it is documented there

    specs = {_LATEST: OffsetSpec.latest, _EARLIEST: OffsetSpec.earliest}
    spec = specs[at]() if at in specs else OffsetSpec.for_timestamp(at)
    futures: dict[Any, Any] = admin.list_offsets(dict.fromkeys(_partitions(places), spec), request_timeout=ASK_SECONDS)
    return {
        Place(partition.topic, partition.partition): int(future.result(ASK_SECONDS + 1).offset)
        for partition, future in futures.items()
    }


def _committed(admin: Any, consumer: str, places: Sequence[Place]) -> Mapping[Place, int]:
    """The next offset of each place; none where nothing is done yet."""
    if not places:
        return {}
    from confluent_kafka import ConsumerGroupTopicPartitions

    wanted = ConsumerGroupTopicPartitions(consumer, _partitions(places))
    futures: dict[str, Any] = admin.list_consumer_group_offsets([wanted], request_timeout=ASK_SECONDS)
    partitions: list[TopicPartition] = futures[consumer].result(ASK_SECONDS + 1).topic_partitions
    return {Place(each.topic, each.partition): each.offset for each in partitions if each.offset >= 0}


def _set_back(admin: Any, consumer: str, offsets: Mapping[Place, int]) -> None:
    """Have the consumer go on from these."""
    if not offsets:
        return
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

    partitions = [TopicPartition(place.topic, place.partition, offset) for place, offset in offsets.items()]
    wanted = ConsumerGroupTopicPartitions(consumer, partitions)
    futures: dict[str, Any] = admin.alter_consumer_group_offsets([wanted], request_timeout=ASK_SECONDS)
    changed: list[TopicPartition] = futures[consumer].result(ASK_SECONDS + 1).topic_partitions
    for each in changed:
        if each.error is not None:
            raise KafkaException(each.error)


def _is_in_use(code: int | None) -> bool:
    from confluent_kafka import KafkaError as Code

    return code in (Code.UNKNOWN_MEMBER_ID, Code.NON_EMPTY_GROUP, Code.REBALANCE_IN_PROGRESS, Code.STALE_MEMBER_EPOCH)


def _in_use(consumer: str) -> InvalidInput:
    return InvalidInput(
        f"The consumer {consumer!r} is at work, and Kafka does not set it back meanwhile. Stop all of its instances,"
        " and try again; one that was killed counts for up to a minute longer."
    )
