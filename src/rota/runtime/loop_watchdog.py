"""Names the handler that blocks the event loop."""

from __future__ import annotations

import asyncio
import contextlib

from rota.logs import get_logger
from rota.runtime.executor import Executor

__all__ = ["LoopWatchdog"]

PATIENCE = 1.0
"""Seconds without an answer from the loop after which a stall is worth a line."""

log = get_logger("rota.heartbeat")


class LoopWatchdog:
    """Asks the loop for a sign of life from another thread, and logs once per stall who is to blame."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._asked_at: float | None = None
        self._reported = False

    def look(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        """One look; called by the heartbeat after each of its beats."""
        if self._asked_at is None:
            self._asked_at = at
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._answer)
        elif at - self._asked_at >= PATIENCE and not self._reported:
            self._reported = True
            self._report(loop, at - self._asked_at)

    def _answer(self) -> None:
        self._asked_at = None
        self._reported = False

    def _report(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        culprit = asyncio.current_task(loop)
        for running in list(self._executor.running):
            if running.job is culprit and culprit is not None:
                log.warning(
                    "handler blocks the event loop; everything else waits for it: make it async, or not async at all",
                    task_type=running.task.task_type,
                    key=running.task.key,
                    seconds=round(seconds, 1),
                )
                return
        log.warning("the event loop is blocked", seconds=round(seconds, 1))
