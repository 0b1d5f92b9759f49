"""What events share in one process: the database, the bus, the outbox, the handles, the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.database import Database
from rota.events.buses.base import Bus
from rota.events.handles import Handles
from rota.events.outbox import Outbox
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
