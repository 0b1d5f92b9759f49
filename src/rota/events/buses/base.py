"""What a bus does: it takes groups of messages, and hands them to consumers in the order of their keys, at least once.

A consumer's instances share the partitions of its topics; each partition is one instance's at a time, and its messages
come in the order of their offsets. What was not committed is handed out again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from rota.clock import Instant, Millis
from rota.errors import BusAway

__all__ = ["Bus", "BusAway", "BusReader", "Message", "Outgoing", "Place", "Refused"]


class Outgoing(NamedTuple):
    """A message on its way to a bus."""

    event_id: str
    topic: str
    partition: int
    """Where its key belongs, for a bus that does not have ways of its own."""
    key: str
    headers: Mapping[str, str]
    value: bytes


class Refused(NamedTuple):
    """The bus will never take this message, for a reason of its own."""

    reason: str


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Message(NamedTuple):
    """A message as a bus hands it out."""

    place: Place
    offset: Any
    """Comparable within its place: what comes later has a greater one."""
    key: str
    headers: Mapping[str, str]
    value: bytes


class BusReader(ABC):
    """One consumer's reading, in one process. One task fetches at a time; what is ours is kept meanwhile, however long
    the consumer does not fetch."""

    @abstractmethod
    async def fetch(self, limit: int, seconds: float) -> Sequence[Message]:
        """The next messages of the places that are ours, as soon as there are any, after so many seconds at most.
        Raises `BusAway` if the bus cannot be asked, perhaps at once: whoever is told so pauses."""

    @abstractmethod
    def places(self) -> Collection[Place]:
        """The places that are ours now. What was fetched from any other is somebody else's by now."""

    is_committed_within: bool = False
    """Whether `commit_within` notes it all, and `commit` has nothing to do."""

    @abstractmethod
    def commit_within(self, connection: Connection, done: Mapping[Place, Any]) -> None:
        """Note how far each place is done, in the transaction that does it; for a bus that lies in the database."""

    @abstractmethod
    async def commit(self, done: Mapping[Place, Any]) -> None:
        """Note how far each place is done: all offsets up to the given one are."""

    @abstractmethod
    def pause(self, places: Collection[Place]) -> None:
        """Fetch nothing from these for now: too much of them is open. The last call counts."""

    @abstractmethod
    def wake(self) -> None:
        """Have a fetch that waits return at once; if none does, the next one."""

    @abstractmethod
    async def close(self) -> None:
        """Give the places back; others may have them at once."""


class Bus(ABC):
    """One way for events to travel."""

    name: str
    """What it is, for people, without secrets."""
    is_the_outbox: bool = False
    """Whether the outbox itself is its log, so that nothing has to be carried anywhere."""

    @abstractmethod
    async def open(self) -> None:
        """Connect. A bus that is away is no error: it is tried again when it is needed."""

    @abstractmethod
    async def close(self) -> None:
        """Let go."""

    @abstractmethod
    async def publish(self, group: Sequence[Outgoing]) -> Sequence[Refused | BusAway | None]:
        """Hand over a group, in which no key occurs twice. For each message: None if the bus has it, `Refused` if it
        never will, `BusAway` if nobody knows or it was not tried: then it is sent again.

        Raises `BusAway` if that is so for all of them.
        """

    @abstractmethod
    async def reader(self, consumer: str, topics: Collection[str], *, instance: str) -> BusReader:
        """Read as this consumer, from where it stopped; from the beginning if it is new."""

    @abstractmethod
    async def lag(self, consumer: str, topics: Collection[str]) -> Mapping[str, int]:
        """How many messages of each topic the consumer has not done yet."""

    @abstractmethod
    async def replay(self, consumer: str, topics: Collection[str], since: Instant) -> None:
        """Have the consumer read again what was published since then. What it has done already is passed over. Whoever
        reads now may lose its places, and finds them again where they are set."""

    async def trim(self, keep_ms: Millis) -> int:
        """Remove what is older and was read by everybody; how much that was."""
        return 0
