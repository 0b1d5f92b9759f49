"""Questions about a consumer: how far it is behind, and setting it back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rota.clock import Instant
from rota.errors import InvalidInput
from rota.events.buses.base import Place
from rota.events.buses.kafka.address import Address
from rota.events.buses.kafka.driver import ASK_SECONDS, Asking, away, code_of, partitions_of

if TYPE_CHECKING:  # the driver is optional, and takes a while to import
    from confluent_kafka import TopicPartition

__all__ = ["lag", "replay"]

_LATEST: Final = -1
_EARLIEST: Final = -2
"""Times that stand for the end and the beginning, as in Kafka itself."""


def lag(address: Address, consumer: str, topics: Collection[str]) -> Mapping[str, int]:
    from confluent_kafka import KafkaException

    asking = Asking(address.common)
    admin = asking.client
    try:
        places = _places_of(admin, topics)
        ends = _offsets(admin, places, _LATEST)
        done = _committed(admin, consumer, places)
        starts = _offsets(admin, places, _EARLIEST)
    except (KafkaException, TimeoutError) as error:
        raise away(address.name, asking.why(error)) from None
    behind = dict.fromkeys(topics, 0)
    for place in places:
        # What Kafka has removed by age is not to be done any more.
        behind[place.topic] += max(0, ends[place] - max(done.get(place, 0), starts[place]))
    return behind


def replay(address: Address, consumer: str, topics: Collection[str], since: Instant) -> None:
    from confluent_kafka import KafkaException

    asking = Asking(address.common)
    admin = asking.client
    try:
        places = _places_of(admin, topics)
        ends = _offsets(admin, places, _LATEST)
        found = _offsets(admin, places, since)
        # Nothing was published since then: the end.
        _set_back(admin, consumer, {place: ends[place] if found[place] < 0 else found[place] for place in places})
    except (KafkaException, TimeoutError) as error:
        if _is_in_use(code_of(error)):
            raise _in_use(consumer) from None
        raise away(address.name, asking.why(error)) from None


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
    futures: dict[Any, Any] = admin.list_offsets(
        dict.fromkeys(partitions_of(places), spec), request_timeout=ASK_SECONDS
    )
    return {
        Place(partition.topic, partition.partition): int(future.result(ASK_SECONDS + 1).offset)
        for partition, future in futures.items()
    }


def _committed(admin: Any, consumer: str, places: Sequence[Place]) -> Mapping[Place, int]:
    """The next offset of each place; none where nothing is done yet."""
    if not places:
        return {}
    from confluent_kafka import ConsumerGroupTopicPartitions

    wanted = ConsumerGroupTopicPartitions(consumer, partitions_of(places))
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
