"""The bus itself. It makes the sender and the readers, and has questions answered aside from the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import cast

from rota.clock import Instant
from rota.errors import InvalidConfig
from rota.events.buses.base import Bus, BusAway, BusReader, Outgoing
from rota.events.buses.kafka.address import consumer_settings, producer_settings, read_url, try_out
from rota.events.buses.kafka.questions import lag, replay
from rota.events.buses.kafka.reader import Reader
from rota.events.buses.kafka.sender import Answer, Sender
from rota.events.buses.kafka.threads import aside
from rota.events.buses.kafka.topics import Topics

__all__ = ["KafkaBus"]


class KafkaBus(Bus):
    """Events travel through Kafka: `kafka://host1:9092,host2:9092?security.protocol=SASL_SSL&group.protocol=consumer`.

    Whatever stands behind the `?` is handed to librdkafka, which both sides are made of.
    """

    def __init__(self, url: str, *, partitions: int = 16) -> None:
        if find_spec("confluent_kafka") is None:
            raise InvalidConfig("Kafka needs a driver: pip install 'rota[kafka]'.")
        self._address = read_url(url)
        try_out(self._address)
        self.name = self._address.name
        self._topics = Topics(self._address, partitions)
        self._sender: Sender | None = None
        self._readers: set[Reader] = set()

    async def open(self) -> None:
        if self._sender is None:
            self._sender = Sender(producer_settings(self._address), self._topics, self.name)

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
        settings = consumer_settings(self._address, consumer, instance)
        reader = Reader(settings, sorted(topics), self._topics, f"{self.name} as {consumer}", self._readers.discard)
        self._readers.add(reader)
        return reader

    async def lag(self, consumer: str, topics: Collection[str]) -> Mapping[str, int]:
        return await aside("lag", partial(lag, self._address, consumer, topics))

    async def replay(self, consumer: str, topics: Collection[str], since: Instant) -> None:
        await aside("replay", partial(replay, self._address, consumer, topics, since))
