"""Events as a part: a relay and the duties of the consumers beside every worker, and what the faces show of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rota.events.section import EVENTS_SECTION
from rota.part import Part
from rota.runtime.duty import Duty, DutyContext

if TYPE_CHECKING:
    from rota.events.consumer import Consumers
    from rota.events.events import Events

__all__ = ["EventsPart"]


class EventsPart(Part):
    """Any number of instances may have it. Without a consumer of its own, an instance relays all the same."""

    name = "events"
    section = EVENTS_SECTION
    is_always_at_work = True

    def __init__(self) -> None:
        self._events: Events | None = None

    @cached_property
    def consumers(self) -> Consumers:
        """The consumers of this process."""
        from rota.events.consumer import Consumers

        return Consumers()

    async def events(self) -> Events:
        """The outbox, the bus and the figures, open."""
        database = await self.host.database()
        if self._events is None or self._events.database is not database:
            from rota.events.setup import open_events

            self._events = await open_events(self.host, database)
            self.host.before_closing.append(self._close)
        return self._events

    async def events_if_wanted(self) -> Events | None:
        """The same; None where nobody has asked for a database, so that no file is made."""
        return await self.events() if self.host.wants_database or len(self.consumers) else None

    async def _close(self) -> None:
        if self._events is not None:
            events, self._events = self._events, None
            await events.bus.close()
        if self._close in self.host.before_closing:
            self.host.before_closing.remove(self._close)

    def duties(self, context: DutyContext) -> Sequence[Duty[Any]]:
        from rota.events.consuming import make_duties
        from rota.events.relay import Relay

        relay = Relay(self.events_if_wanted, context)
        consuming = [
            duty for consumer in self.consumers for duty in make_duties(consumer, self.events_if_wanted, context)
        ]
        return [relay, *consuming]
