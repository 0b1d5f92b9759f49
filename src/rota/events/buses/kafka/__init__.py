"""Kafka: for those who have one already, or more events than one database carries.

The driver is C with threads of its own, and its calls block. So each producer and each consumer lives on one thread
that nobody else's calls enter; the event loop hands over groups, and is told of many results at once.

Which partition a key belongs to is Kafka's own affair, and the same as Java's clients find: a topic may have been made
by others, with any number of partitions.
"""

from rota.events.buses.kafka.bus import KafkaBus

__all__ = ["KafkaBus"]
