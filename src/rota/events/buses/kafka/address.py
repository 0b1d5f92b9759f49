"""What the URL of the bus says: the settings of the producer and of the consumers, and what nobody else may set.

They are tried out when the bus is made, so that a wrong one is told of then, and not when the first event is sent.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from rota.config.urls import masked
from rota.errors import InvalidConfig
from rota.events.buses.kafka.driver import DriverLog, Settings, reason_of

__all__ = ["Address", "consumer_settings", "producer_settings", "read_url", "try_out"]

MESSAGE_SECONDS: Final = 5.0
"""How long Kafka may take for a message."""

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


class Address(NamedTuple):
    """What a URL says."""

    name: str
    given: Collection[str]
    """The names of what stands behind the `?`."""
    common: Settings
    producer: Settings
    consumer: Settings


def read_url(url: str) -> Address:
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
    return Address(
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


def producer_settings(address: Address) -> Settings:
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


def consumer_settings(address: Address, consumer: str, instance: str) -> Settings:
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


def try_out(address: Address) -> None:
    """Have the driver look at the settings now. It connects to nobody: no brokers are named."""
    from confluent_kafka import Consumer, KafkaException, Producer

    try:
        # What was noted is not looked at: it would be that there are no brokers.
        Producer(_without_brokers(producer_settings(address)), logger=DriverLog())
        Consumer(_without_brokers(consumer_settings(address, "trial", "trial")), logger=DriverLog()).close()
    except (KafkaException, TypeError, ValueError) as error:
        reason = reason_of(error)
        # The driver may call a setting by its other name.
        is_clear = not address.given or any(name in reason for name in address.given)
        named = "" if is_clear else f" It sets {', '.join(address.given)}."
        raise InvalidConfig(f"The URL of the bus {address.name} cannot be used: {reason}.{named}") from None


def _without_brokers(settings: Settings) -> Settings:
    return {name: value for name, value in settings.items() if name != "bootstrap.servers"}
