"""Consumers: functions that handle events, each known by one name everywhere.

    @app.consumer("Genesis.Session.DetailBatchGenerationRequested", name="worldbuilder")
    async def generate(event: Event) -> Effect | None: ...

The handler does what takes long, and returns its effect: a function of a connection that is run in the transaction
which notes the event as done. So the effect happens once, however often the event comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import Connection

from rota.clock import MINUTE, Millis
from rota.core.task_type import did_you_mean
from rota.errors import InvalidInput
from rota.events.delivery import Classify
from rota.events.envelope import Event, check_topic, check_type
from rota.runtime.handler import is_async

__all__ = ["ALIASES", "Consumer", "ConsumerFunction", "Consumers", "Effect", "Gate", "JointEffect", "canonical"]

Effect = Callable[[Connection], object]
"""What a handler wants to be committed with its event: rows of its own, events of its own."""
ConsumerFunction = Callable[[Event], Any]
T = TypeVar("T")


class JointEffect(Generic[T]):
    """An effect that costs less for many than for each: those of one function that end together are one call of it,
    with all their items. If that fails each is made by itself, so one that is no good fails alone."""

    def __init__(self, run: Callable[[Connection, Sequence[T]], object], item: T) -> None:
        self.run = run
        self.item = item

    def __call__(self, connection: Connection) -> object:
        return self.run(connection, [self.item])


ALIASES: Final[Mapping[str, str]] = {
    "character_expert": "characterexpert",
    "world_builder": "worldbuilder",
}
"""Other names of agents, each for the one that counts."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,99}")
MAX_CONCURRENCY: Final = 1_000


def canonical(name: str) -> str:
    """The one name of a consumer, whichever of its names is given."""
    return ALIASES.get(name, name)


class Gate:
    """Closed, a consumer reads nothing, and costs nothing; open, it does, and stays open. Whoever knows that there is
    something to read opens it, on the event loop of those who wait."""

    def __init__(self) -> None:
        self.is_open = False
        self._waiting: list[Callable[[], None]] = []

    def wake_at_opening(self, wake: Callable[[], None]) -> None:
        self._waiting.append(wake)

    def open(self) -> None:
        if not self.is_open:
            self.is_open = True
            for wake in self._waiting:
                wake()


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """One consumer: what it handles, and how."""

    name: str
    event_types: tuple[str, ...]
    function: ConsumerFunction
    accepts: Callable[[Event], bool] | None = None
    """Which events of these types are its own; the others are passed over. None: all of them."""
    gate: Gate | None = None
    """None: it reads wherever a worker runs."""
    topics: tuple[str, ...] = ()
    """Where its events are, beside the topics of their types."""
    concurrency: int = 10
    timeout_ms: Millis = 5 * MINUTE
    max_attempts: int | None = None
    """None: as configured."""
    classify: Callable[[Exception], Classify] | None = None

    @property
    def is_async(self) -> bool:
        return is_async(self.function)

    def is_for(self, event: Event) -> bool:
        """Whether an event is one that it handles."""
        return event.event_type in self.event_types and (self.accepts is None or self.accepts(event))

    def topics_with(self, topic_of: Callable[[str], str]) -> list[str]:
        """Every topic that it reads."""
        return sorted({*self.topics, *map(topic_of, self.event_types)})

    def checked(self) -> Consumer:
        where = f"The consumer {self.name!r}"
        if not _NAME.fullmatch(self.name):
            raise InvalidInput(f"No consumer can be called {self.name!r}. Use small letters, digits, '_' and '-'.")
        if not self.event_types:
            raise InvalidInput(f"{where} handles nothing. Name the types of its events: @app.consumer('A.B.Created').")
        for event_type in self.event_types:
            check_type(event_type)
        for topic in self.topics:
            check_topic(topic)
        if not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise InvalidInput(f"{where} has concurrency={self.concurrency}. Use 1 to {MAX_CONCURRENCY:,}.")
        if self.timeout_ms < 1:
            raise InvalidInput(f"{where} has a timeout of nothing. Use '5m', or what its handler needs.")
        if self.max_attempts is not None and not 1 <= self.max_attempts <= 100:
            raise InvalidInput(f"{where} has max_attempts={self.max_attempts}. Use 1 to 100.")
        if not callable(self.function):
            raise InvalidInput(f"{where} has a handler that cannot be called. Give a function of one event.")
        return self


class Consumers:
    """The consumers of one process, by their names."""

    def __init__(self) -> None:
        self._by_name: dict[str, Consumer] = {}

    def add(self, consumer: Consumer) -> Consumer:
        """A second one of the same name is refused, unless it is the same function."""
        consumer.checked()
        known = self._by_name.get(consumer.name)
        if known is not None and known.function is not consumer.function:
            raise InvalidInput(
                f"There are two consumers {consumer.name!r}. Each has its own place in the events: name one otherwise."
            )
        self._by_name[consumer.name] = consumer
        return consumer

    def copy(self) -> Consumers:
        """The same ones; what is added to one of the two from now on is not known to the other one."""
        twin = Consumers()
        twin._by_name.update(self._by_name)
        return twin

    def find(self, name: str) -> Consumer:
        """The consumer of a name, or of an alias. One that is not there is an error: nothing stands in for it."""
        found = self._by_name.get(canonical(name))
        if found is None:
            raise InvalidInput(f"There is no consumer {name!r}. {did_you_mean(name, [*self._by_name] or ['none yet'])}")
        return found

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)
