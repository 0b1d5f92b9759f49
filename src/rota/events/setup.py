"""Events as a configuration has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rota.clock import SECOND
from rota.config import Config
from rota.config.urls import scheme_of
from rota.database import Database
from rota.events.buses.base import Bus
from rota.events.callback import CallbackDuty
from rota.events.events import Events
from rota.events.handles import Handles
from rota.events.outbox import Outbox
from rota.events.prefect_api import PrefectApi
from rota.events.section import EVENTS_SECTION, PREFECT_SECTION
from rota.events.tracing import current_trace, tracer_if_configured
from rota.part import PartHost
from rota.runtime.duty import DutyContext
from rota.webhooks import Webhooks

__all__ = ["bus_for", "make_callback_duty", "open_events"]


async def open_events(host: PartHost, database: Database) -> Events:
    """The open bus over an open database."""
    config = EVENTS_SECTION.of(host.config)
    bus = bus_for(host.config, database)
    await bus.open()
    handles = Handles(database)
    outbox = Outbox(
        database,
        prefix=config.prefix,
        partitions=config.partitions,
        trace=current_trace,
        # A flow is woken by what is committed here; what comes from others, by a consumer whose effect is to count it.
        on_added=handles.arrive_all,
    )
    return Events(database, bus, config, outbox, handles, host.tracer or tracer_if_configured())


def make_callback_duty(
    open_events: Callable[[], Awaitable[Events | None]], config: Config, context: DutyContext
) -> CallbackDuty:
    """What calls flows that have what they waited for."""
    prefect = PREFECT_SECTION.of(config)
    api = None if prefect.api_url is None else PrefectApi(prefect.api_url, prefect.api_key)
    webhooks = Webhooks(allow_private=config.webhooks.allow_private, allow_http=config.webhooks.allow_http)

    async def open_handles() -> Handles | None:
        events = await open_events()
        return None if events is None else events.handles

    return CallbackDuty(open_handles, webhooks, api, pulse=context.pulse, chance=context.chance)


def bus_for(config: Config, database: Database) -> Bus:
    """The bus that a configuration names. Only the one that is used is imported."""
    url, events = config.bus_url, EVENTS_SECTION.of(config)
    scheme = scheme_of(url)
    if scheme == "local":
        from rota.events.buses.local import LocalBus

        return LocalBus(database, partitions=events.partitions, lease_ms=config.lease_ms)
    if scheme == "kafka":
        from rota.events.buses.kafka import KafkaBus

        return KafkaBus(url, partitions=events.partitions)
    from rota.events.buses.redis import RedisBus

    call_timeout = config.call_timeout_ms / SECOND
    return RedisBus(url, partitions=events.partitions, call_timeout=call_timeout, lease_ms=config.lease_ms)
