"""Events as a part: a relay and the duties of the consumers beside every worker, and what the faces show of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rota.config.urls import scheme_of
from rota.events.section import EVENTS_SECTION
from rota.part import Attention, CheckResult, MeasuredKind, Part
from rota.runtime.duty import Duty, DutyContext

if TYPE_CHECKING:
    from fastapi import APIRouter
    from prometheus_client.core import Metric

    from rota.config import Config
    from rota.dashboard.part import Pages
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

    def moved(self) -> None:
        self._events = None
        self.consumers = self.consumers.copy()

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
        from rota.events.pruning import EventPruner
        from rota.events.relay import Relay
        from rota.events.setup import make_callback_duty

        relay = Relay(self.events_if_wanted, context, lease_ms=self.host.config.lease_ms)
        consuming = self._consuming(context) if context.runs_handlers else ()
        callbacks = make_callback_duty(self.events_if_wanted, self.host.config, context)
        return [relay, *consuming, callbacks, EventPruner(self.events_if_wanted, context)]

    def duties_until_idle(self, context: DutyContext) -> Sequence[Duty[Any]]:
        from rota.events.relay import Relay

        if not self._is_asked_until_idle:
            return ()
        return [Relay(self.events, context, lease_ms=self.host.config.lease_ms), *self._consuming(context)]

    async def count_open(self) -> int:
        from rota.events.open_events import count_open

        if not self._is_asked_until_idle:
            return 0
        database = (await self.events()).database
        now = await database.now()
        return await database.read(lambda connection: count_open(connection, self.consumers, now))

    @property
    def _is_asked_until_idle(self) -> bool:
        """On other buses nobody knows when all of it has come."""
        return len(self.consumers) > 0 and scheme_of(self.host.config.bus_url) == "local"

    def _consuming(self, context: DutyContext) -> list[Duty[Any]]:
        from rota.events.consuming import make_duties

        lease_ms = self.host.config.lease_ms
        made = (make_duties(one, self.events_if_wanted, context, lease_ms=lease_ms) for one in self.consumers)
        return [duty for duties in made for duty in duties]

    def alert_kinds(self) -> Sequence[MeasuredKind]:
        from rota.events.alert_kinds import ALERT_KINDS

        return ALERT_KINDS

    # --- what the faces show ---

    def routes(self) -> Sequence[APIRouter]:
        from rota.events.faces import routes

        return [routes.reading, routes.acting]

    def pages(self) -> Pages:
        from rota.events.faces.pages import PAGES

        return PAGES

    async def diagnose(self, config: Config) -> Sequence[CheckResult]:
        from rota.events.checks import diagnose

        return await diagnose(config)

    async def metrics(self) -> Iterable[Metric]:
        events = await self.events_if_wanted()
        if events is None:
            return ()
        from rota.events.metrics import families

        return await families(self, events)

    async def attention(self) -> Sequence[Attention]:
        if not self.host.wants_database:
            return ()
        from rota.events.notable import attention

        return await attention(await self.host.database())

    # --- what it keeps about a user ---

    async def erase_user(self, user_id: str) -> Mapping[str, int]:
        if not self.host.wants_database:
            return {}
        from rota.events.person import erase_user

        erased = await erase_user(await self.host.database(), user_id)
        return {name: count for name, count in erased.items() if count}

    async def export_user(self, user_id: str) -> AsyncIterator[Mapping[str, object]]:
        if not self.host.wants_database:
            return
        from rota.events.person import export_user

        async for kept in export_user(await self.host.database(), user_id):
            yield kept
