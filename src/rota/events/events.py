"""What events share in one process: the database, the bus, the outbox, the handles, the figures."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from rota.database import Database
from rota.events.buses.base import Bus
from rota.events.buses.local import LocalBus
from rota.events.handles import Handles
from rota.events.outbox import MAX_ADDED, OUTBOX_CHANGED, Outbox
from rota.events.section import EventsConfig
from rota.events.stats import EventStats

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

__all__ = ["Events"]


class Events:
    """Open, as long as the host is."""

    def __init__(
        self,
        database: Database,
        bus: Bus,
        config: EventsConfig,
        outbox: Outbox,
        handles: Handles | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.database = database
        self.bus = bus
        self.config = config
        self.outbox = outbox
        self.handles = handles or Handles(database)
        self.tracer = tracer
        """What makes spans; None if nobody keeps them."""
        self.stats = EventStats()

    @cached_property
    def prompt_outbox(self) -> Outbox:
        """The outbox for who waits for what it publishes. Where the bus is the outbox, events have their places in the
        log with the commit that adds them; unless somebody else is placing some at that moment: then the relay places
        them. Elsewhere it is the usual one. For transactions of Rota's own."""
        bus, database = self.bus, self.database
        if not isinstance(bus, LocalBus):
            return self.outbox

        def place(connection: Connection) -> None:
            placed = bus.place_within(connection, MAX_ADDED, wait=False)
            if placed is None:
                database.changes.poke(connection, OUTBOX_CHANGED)
            else:
                self.stats.published.update({(topic, "sent"): count for topic, count in placed.items()})

        return self.outbox.with_places(lambda connection: database.last_steps.add(connection, "place events", place))
