"""What `rota up` and `rota worker` do beside running tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from rota.clock import SystemClock
from rota.logs import get_logger

if TYPE_CHECKING:
    from rota.app.rota import Rota

__all__ = ["Duty", "beside", "duties_of"]

Duty = Callable[[], Coroutine[Any, Any, None]]
"""Something that runs until it is cancelled."""

_log = get_logger("rota.duties")


async def duties_of(app: Rota) -> list[Duty]:
    """What runs beside the worker of a connected app: the agents' keeper, and the alerts, which one of all instances
    looks at, at a time."""
    from rota.agents import agents_of
    from rota.agents.keeper import Keeper
    from rota.alerts import AlertDuty
    from rota.alerts.section import ALERTS_SECTION

    keeper = Keeper(agents_of(app)).run
    if not ALERTS_SECTION.of(app.config).enabled:
        return [keeper]
    return [keeper, AlertDuty(await app.store(), await app.database(), app.config, clock=SystemClock()).run]


@asynccontextmanager
async def beside(duties: Sequence[Duty]) -> AsyncGenerator[None]:
    """The duties at work for the length of the block."""
    tasks = [asyncio.create_task(_watched(duty), name="rota-duty") for duty in duties]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watched(duty: Duty) -> None:
    """A duty that ends by itself is missed by nobody: the log is where it is missed."""
    try:
        await duty()
    except Exception as error:
        _log.error("duty ended", duty=getattr(duty, "__qualname__", str(duty)), exc_info=error)
