"""How the handler of one run is called, and what it did: whatever it returns or raises is a verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import cast

from rota.runtime.handler import Handler
from rota.runtime.process import run_in_process
from rota.runtime.running import Running
from rota.runtime.threads import Threads
from rota.runtime.verdict import StopCause, Verdict, of_error, of_value

__all__ = ["call_handler"]


async def call_handler(running: Running, handler: Handler, threads: Threads) -> Verdict | None:
    """The verdict on a run, in the run's own asyncio task; None if it ended because it was told to stop."""
    task, run = running.task, running.run
    try:
        if handler.kind == "async":
            return of_value(await cast("Awaitable[object]", handler.call(task, run)))
        if handler.kind == "thread":
            return of_value(await threads.run(lambda: handler.call(task, run), running.note_thread))
        return await run_in_process(handler, task, running.timeout_ms, running)
    except asyncio.CancelledError as error:
        return _cancelled(running, error)
    except BaseException as error:  # KeyboardInterrupt, a library's own: the run has ended, and is settled
        if _is_closed_from_outside(running, error):
            raise
        running.error = error
        return of_error(error)


def _cancelled(running: Running, error: asyncio.CancelledError) -> Verdict | None:
    """None if it was told to stop; a handler that cancels itself has simply failed."""
    running.stopped_by = error
    job = asyncio.current_task()
    assert job is not None
    is_ours = job.cancelling() > 0
    while job.cancelling() > 0:
        job.uncancel()
    if running.cause is None and is_ours:
        # Nobody here did that: the loop itself is ending.
        running.cause = StopCause.SHUTDOWN
    return None if is_ours else of_error(error)


def _is_closed_from_outside(running: Running, error: BaseException) -> bool:
    """Whether the coroutine is being thrown away with its loop, and not its handler that raised a GeneratorExit."""
    if not isinstance(error, GeneratorExit):
        return False
    try:
        return asyncio.current_task() is not running.job
    except RuntimeError:  # no loop runs here any more
        return True
