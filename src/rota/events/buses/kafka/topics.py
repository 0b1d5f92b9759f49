"""The topics: which are there, and making those that are not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rota.events.buses.base import BusAway, Refused
from rota.events.buses.kafka.address import Address
from rota.events.buses.kafka.driver import ASK_SECONDS, Asking, away, code_of, is_silence, reason_of
from rota.logs import get_logger

__all__ = ["Topics"]

log = get_logger("rota.events")


class Topics:
    """Which topics are there; makes those that are not. Each thread that asks makes a client of its own for it."""

    def __init__(self, address: Address, partitions: int) -> None:
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

        asking = Asking(self._address.common)
        try:
            cluster = asking.client.list_topics(timeout=ASK_SECONDS)
        except KafkaException as error:
            return {topic: away(self._address.name, asking.why(error)) for topic in missing}
        self._known |= missing & cluster.topics.keys()
        missing -= cluster.topics.keys()
        if cluster.controller_id not in cluster.brokers:
            # Nobody there makes topics when asked; maybe somebody does when they are written to.
            self._known |= missing
            return {}
        return self._make(asking.client, missing) if missing else {}

    def _make(self, admin: Any, topics: Collection[str]) -> Mapping[str, Refused | BusAway]:
        from confluent_kafka import KafkaError as Code
        from confluent_kafka.cimpl import NewTopic

        problems: dict[str, Refused | BusAway] = {}
        wanted = [NewTopic(topic, self._partitions, -1) for topic in topics]
        made: dict[str, Any] = admin.create_topics(wanted, request_timeout=ASK_SECONDS)
        for topic, future in made.items():
            error: BaseException | None = future.exception(ASK_SECONDS + 1)
            code = None if error is None else code_of(error)
            if error is not None and code == Code.TOPIC_EXCEPTION:
                problems[topic] = Refused(f"Kafka takes no topic called {topic!r}: {reason_of(error)}.")
            elif error is not None and is_silence(code):
                problems[topic] = away(self._address.name, reason_of(error))
            else:
                self._known.add(topic)
                if error is not None and code != Code.TOPIC_ALREADY_EXISTS:
                    log.warning("kafka.topic_not_made", topic=topic, reason=reason_of(error))
        return problems
