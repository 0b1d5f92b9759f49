"""A Kafka cluster inside the process: librdkafka brings one for tests, which speaks Kafka's own protocol over TCP.

It makes topics when they are written to, with four partitions, and forgets everything when it ends. What it cannot do
is tried on the real one, in `tests/kafka`: make topics when asked, set a consumer back, go away and come back, and have
two members in a group of the classic protocol.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from confluent_kafka import Producer

__all__ = ["KafkaCluster", "kafka_cluster"]


class KafkaCluster:
    """A running cluster."""

    def __init__(self, holder: Producer) -> None:
        self._holder = holder
        brokers = holder.list_topics(timeout=30).brokers.values()
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def url(self, **settings: str) -> str:
        """The URL of a bus on it; `group_protocol="consumer"` is handed on as `group.protocol=consumer`."""
        query = "&".join(f"{name.replace('_', '.')}={value}" for name, value in settings.items())
        return f"kafka://{self.servers}?{query}"

    def make(self, topic: str) -> str:
        """Have a topic that nobody has written to yet."""
        self._holder.list_topics(topic, timeout=30)
        return topic


class _Quiet:
    """The cluster would say on the terminal that it is not a real one."""

    def log(self, level: int, form: str, *values: object) -> None:
        pass


@contextmanager
def kafka_cluster(brokers: int = 1) -> Generator[KafkaCluster]:
    """A cluster for the time of the block."""
    holder = Producer({"test.mock.num.brokers": brokers}, logger=_Quiet())
    yield KafkaCluster(holder)
    holder.flush(0)
