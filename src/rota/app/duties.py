"""The duties of the parts in a process that runs no worker: a service of pages alone still tells of alerts."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from rota.clock import SECOND
from rota.logs import get_logger
from rota.runtime.duty import Duty, DutyContext
from rota.runtime.health import Pulse

if TYPE_CHECKING:
    from rota.app.host import Host

__all__ = ["duties_alone"]

log = get_logger("rota.duties")


@asynccontextmanager
async def duties_alone(host: Host) -> AsyncGenerator[None]:
    """The duties at work for the length of the block, on the host's open store."""
    context = DutyContext(
        store=await host.ready(),
        instance=uuid.uuid4().hex,
        clock=host.clock,
        pulse=Pulse(host.clock),
        chance=random.random,
        call_timeout=host.config.call_timeout_ms / SECOND,
        runs_handlers=False,
    )
    duties = host.duties(context)
    tasks = [asyncio.create_task(duty.run(), name=f"rota-{duty.name}") for duty in duties]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _close_all(duties, context.call_timeout)


async def _close_all(duties: Sequence[Duty[Any]], seconds: float) -> None:
    for duty in duties:
        try:
            async with asyncio.timeout(seconds):
                await duty.close()
        except Exception as error:
            log.warning("duty not closed", duty=duty.name, error=str(error) or "it took too long")
