"""What `rota doctor` should know of events: that the bus can be had, and what is wrong with it if not."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rota.clock import SECOND
from rota.config import Config
from rota.config.urls import masked, scheme_of
from rota.errors import BusAway, RotaError
from rota.events.section import EVENTS_SECTION, PREFECT_SECTION
from rota.part import CheckResult

if TYPE_CHECKING:
    from rota.events.buses.base import Bus

__all__ = ["diagnose"]

PATIENCE_SECONDS: Final = 10.0
_ADVICE: Final = "Start it, or set `bus` (ROTA_BUS) to the right one. Until then events wait in the outbox."


async def diagnose(config: Config) -> Sequence[CheckResult]:
    """The bus, and the Prefect that flows wait in, if there is one."""
    return [await _bus(config), *_prefect(config)]


async def _bus(config: Config) -> CheckResult:
    url = masked(config.bus_url)
    scheme = scheme_of(config.bus_url)
    if scheme == "local":
        return CheckResult("bus", "ok", "local: events stay in the database")
    if scheme == "kafka" and importlib.util.find_spec("confluent_kafka") is None:
        return CheckResult("bus", "error", f"{url}: its driver is missing", "pip install 'rota[kafka]'")
    try:
        await _ask(_made(config), EVENTS_SECTION.of(config).prefix)
    except (BusAway, TimeoutError, OSError) as error:
        return CheckResult("bus", "error", f"{url} cannot be reached: {masked(str(error)) or 'no answer'}", _ADVICE)
    except RotaError as error:
        return CheckResult("bus", "error", masked(str(error)), "Correct `bus` in the configuration.")
    return CheckResult("bus", "ok", url)


def _made(config: Config) -> Bus:
    partitions = EVENTS_SECTION.of(config).partitions
    if scheme_of(config.bus_url) == "kafka":
        from rota.events.buses.kafka import KafkaBus

        return KafkaBus(config.bus_url, partitions=partitions)
    from rota.events.buses.redis import RedisBus

    return RedisBus(config.bus_url, partitions=partitions, call_timeout=config.call_timeout_ms / SECOND)


async def _ask(bus: Bus, prefix: str) -> None:
    """A question that changes nothing, about a topic that nobody has."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        await bus.open()
        try:
            await bus.lag("doctor", [f"{prefix}doctor"])
        finally:
            await bus.close()


def _prefect(config: Config) -> list[CheckResult]:
    url = PREFECT_SECTION.of(config).api_url
    return [] if url is None else [CheckResult("prefect", "ok", f"flows are resumed at {masked(url)}")]
