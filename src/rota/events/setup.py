"""Events as a configuration has them."""

from __future__ import annotations

from rota.clock import SECOND
from rota.config.urls import scheme_of
from rota.database import Database
from rota.events.buses.base import Bus
from rota.events.events import Events
from rota.events.outbox import Outbox
from rota.events.section import EVENTS_SECTION, EventsConfig
from rota.part import PartHost

__all__ = ["bus_for", "open_events"]


async def open_events(host: PartHost, database: Database) -> Events:
    """The open bus over an open database."""
    config = EVENTS_SECTION.of(host.config)
    bus = bus_for(host.config.bus_url, database, config, call_timeout=host.config.call_timeout_ms / SECOND)
    await bus.open()
    outbox = Outbox(database, prefix=config.prefix, partitions=config.partitions)
    return Events(database, bus, config, outbox)


def bus_for(url: str, database: Database, config: EventsConfig, *, call_timeout: float) -> Bus:
    """The bus that a URL names. Only the one that is used is imported."""
    scheme = scheme_of(url)
    if scheme == "local":
        from rota.events.buses.local import LocalBus

        return LocalBus(database, partitions=config.partitions)
    if scheme == "kafka":
        from rota.events.buses.kafka import KafkaBus

        return KafkaBus(url, partitions=config.partitions)
    from rota.events.buses.redis import RedisBus

    return RedisBus(url, partitions=config.partitions, call_timeout=call_timeout)
