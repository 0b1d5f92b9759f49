"""One run under way: what the executor, the heartbeat and the worker know of it."""

from __future__ import annotations

import asyncio
import math

from rota.clock import Millis
from rota.core.task import Renewal, Task
from rota.runtime.handler import Handler
from rota.runtime.run import Run
from rota.runtime.verdict import StopCause

__all__ = ["Running"]

A_MOMENT = 0.25
"""Seconds that settling a run takes at most, unless the store is in trouble: so long its lease is not renewed."""


class Running:
    """A run from its claim to its settlement. Fields that both threads touch are single assignments."""

    __slots__ = (
        "_progress_sent",
        "cause",
        "entered",
        "error",
        "handler",
        "held_since",
        "interrupted",
        "is_abandoned",
        "job",
        "left_behind",
        "run",
        "settling",
        "settling_since",
        "started",
        "task",
        "timeout_ms",
        "timer",
        "took_ms",
        "trace",
    )

    def __init__(self, task: Task, handler: Handler | None, timeout_ms: Millis, held_since: float) -> None:
        self.task = task
        self.handler = handler
        """None for what was claimed and is not begun here."""
        self.timeout_ms = timeout_ms
        self.run = None if handler is None or handler.run_parameter is None else Run(task, timeout_ms)
        """What the handler is given, if it asked for it."""
        self.held_since = held_since
        """Monotonic seconds: when the claim or renewal was sent that last gave us the lease."""
        self.started = held_since
        self.cause: StopCause | None = None
        self.entered = False
        """Whether the handler was called. A task that is cancelled before its first step never runs at all."""
        self.interrupted = False
        self.error: BaseException | None = None
        """What the handler raised, for the log."""
        self.settling = False
        self.settling_since = math.inf
        """Monotonic seconds: when the handler was over, and its outcome began its way to the store."""
        self.is_abandoned = False
        """Whether the handler was given up on: it ignored its cancellation, or its thread cannot be ended."""
        self.job: asyncio.Task[None] | None = None
        self.left_behind: asyncio.Task[None] | None = None
        """The handler's own task, once it was given up on. The loop itself keeps no reference to it."""
        self.timer: asyncio.TimerHandle | None = None
        self.took_ms: Millis = 0
        """How long the handler took, once that is known."""
        self.trace: object = None
        """What a tracing observer keeps between the run's start and its end."""
        self._progress_sent: str | None = None

    @property
    def fence_since(self) -> float:
        """Monotonic seconds from which on the time counts until the run must be fenced.

        Once only the outcome is on its way nothing is left to be fenced, however old the lease: it counts as new.
        """
        return math.inf if self.settling else self.held_since

    def begin_settling(self, at: float) -> None:
        """The handler is over; from now on nobody can tell it to stop, and no timer does."""
        self.settling_since = at
        self.settling = True
        if self.timer is not None:
            self.timer.cancel()

    def report_progress(self, progress: str) -> None:
        """Progress that comes as JSON from a process of its own."""
        if self.run is not None:
            self.run.latest_progress = progress

    def tell_to_stop(self, cause: StopCause) -> bool:
        """Note why it has to stop, from any thread; False if it was told before or is over. The first cause counts."""
        if self.settling or self.cause is not None:
            return False
        self.cause = cause
        if self.run is not None:
            self.run.cancelled = True
        return True

    def is_held(self, now: float, grace: float) -> bool:
        """Whether the lease is still to be renewed: not once it is lost, being settled, or long past its timeout.

        An outcome that the store does not take holds its lease until it lands: the work is done, and whoever took the
        task over would only do it again. A renewal that comes after it is stale, which harms nobody.
        """
        if self.cause in (StopCause.LOST, StopCause.FENCED, StopCause.LATE):
            return False
        if self.settling:
            return now - self.settling_since > A_MOMENT
        return now <= self.started + self.timeout_ms / 1_000 + grace

    def renewal(self) -> Renewal:
        """The request to keep the lease, with the progress that was made since the last one."""
        progress = None if self.run is None else self.run.latest_progress
        new = None if progress == self._progress_sent else progress
        return Renewal(self.task.task_type, self.task.key, self.task.token, new)

    def renewed(self, renewal: Renewal, sent_at: float) -> None:
        """The store has agreed to a renewal that was sent at this time."""
        self.held_since = sent_at
        if renewal.progress is not None:
            self._progress_sent = renewal.progress
