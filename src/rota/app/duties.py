"""The duties of the parts where no worker has them: a service of pages alone still tells of alerts, and whoever
runs until idle has events handled, too."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from rota.clock import SECOND
from rota.logs import get_logger
from rota.runtime.duty import Duty, DutyContext
from rota.runtime.health import Pulse

if TYPE_CHECKING:
    from rota.app.host import Host

__all__ = ["duties_alone", "run_with_duties"]

LOOK_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 30.0
"""What nothing has come of for so long is left to whoever has it."""

log = get_logger("rota.duties")


@asynccontextmanager
async def duties_alone(host: Host) -> AsyncGenerator[None]:
    """The duties at work for the length of the block, on the host's open store."""
    context = await _context(host, runs_handlers=False)
    async with _at_work(host.duties(context), context.call_timeout):
        yield


async def run_with_duties(host: Host, work_off: Callable[[], Awaitable[int]]) -> int:
    """Work off what is due again and again, until the duties that run beside it have nothing to do either."""
    context = await _context(host, runs_handlers=True)
    duties = [duty for part in host.parts.values() for duty in part.duties_until_idle(context)]
    if not duties:
        return await work_off()
    async with _at_work(duties, context.call_timeout):
        ran, waited, is_quiet = 0, 0.0, False
        while True:
            ran += (done := await work_off())
            count = sum([await part.count_open() for part in host.parts.values()])
            if count == 0 and is_quiet:
                return ran
            # What was handled last may have made more of it due: it is looked once more.
            is_quiet, waited = count == 0, 0.0 if done else waited + LOOK_SECONDS
            if waited >= PATIENCE_SECONDS:
                log.warning("left undone", events=count, advice="another process may have them, or had them")
                return ran
            if count:
                await asyncio.sleep(LOOK_SECONDS)


async def _context(host: Host, *, runs_handlers: bool) -> DutyContext:
    return DutyContext(
        store=await host.ready(),
        instance=uuid.uuid4().hex,
        clock=host.clock,
        pulse=Pulse(host.clock),
        chance=random.random,
        call_timeout=host.config.call_timeout_ms / SECOND,
        runs_handlers=runs_handlers,
    )


@asynccontextmanager
async def _at_work(duties: Sequence[Duty[Any]], seconds: float) -> AsyncGenerator[None]:
    tasks = [asyncio.create_task(duty.run(), name=f"rota-{duty.name}") for duty in duties]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _close_all(duties, seconds)


async def _close_all(duties: Sequence[Duty[Any]], seconds: float) -> None:
    for duty in duties:
        try:
            async with asyncio.timeout(seconds):
                await duty.close()
        except Exception as error:
            log.warning("duty not closed", duty=duty.name, error=str(error) or "it took too long")
