"""One run under way: what the executor, the settler, the heartbeat and the worker know of it."""

from __future__ import annotations

import asyncio
import math

import msgspec

from rota.clock import Millis
from rota.core.task import Renewal, Settlement, Task
from rota.runtime.handler import Handler
from rota.runtime.run import Run
from rota.runtime.verdict import StopCause, Verdict

__all__ = ["Running"]

A_MOMENT = 0.25
"""Seconds that settling a run takes at most, unless the store is in trouble: so long its lease is not renewed."""


class Running(msgspec.Struct, eq=False):
    """A run from its claim to its settlement. Fields that both threads touch are single assignments."""

    task: Task
    handler: Handler | None
    """None for what was claimed and is not begun here."""
    timeout_ms: Millis
    held_since: float
    """Monotonic seconds: when the claim or renewal was sent that last gave us the lease."""

    run: Run | None = None
    """What the handler is given, if it asked for it."""
    job: asyncio.Task[None] | None = None
    """The handler's own task. The loop itself keeps no reference to it, also when the handler was given up on."""
    started: float = 0.0
    deadline: float = math.inf
    """By the loop's clock: when it must have ended or, once it was told to stop, is given up on."""
    entered: bool = False
    """Whether the handler was called. A task that is cancelled before its first step never runs at all."""
    cause: StopCause | None = None
    interrupted: bool = False
    is_abandoned: bool = False
    """Whether the handler was given up on: it ignored its cancellation, or its thread cannot be ended."""
    error: BaseException | None = None
    """What the handler raised, for the log."""

    settling: bool = False
    settling_since: float = math.inf
    """Monotonic seconds: when the handler was over, and its outcome began its way to the store."""
    took_ms: Millis = 0
    """How long the handler took, once that is known."""
    verdict: Verdict | None = None
    """How it ended, once it has; None if it was taken over."""
    settlement: Settlement | None = None
    """The same as the store is told."""
    failures: int = 0
    """How often the store did not take that."""
    landed: bool = False
    """Whether the store has taken it."""

    trace: object = None
    """What a tracing observer keeps between the run's start and its end."""
    progress_sent: str | None = None

    def __post_init__(self) -> None:
        self.started = self.held_since
        if self.handler is not None and self.handler.run_parameter is not None:
            self.run = Run(self.task, self.timeout_ms)

    @property
    def fence_since(self) -> float:
        """Monotonic seconds from which on the time counts until the run must be fenced.

        Once only the outcome is on its way nothing is left to be fenced, however old the lease: it counts as new.
        """
        return math.inf if self.settling else self.held_since

    def begin_settling(self, verdict: Verdict | None, at: float) -> None:
        """The handler is over, like this; from now on nobody can tell it to stop, and it has no deadline."""
        self.verdict = verdict
        self.settling_since = at
        self.settling = True
        self.deadline = math.inf
        self.took_ms = max(0, round((at - self.started) * 1_000))

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
        new = None if progress == self.progress_sent else progress
        return Renewal(self.task.task_type, self.task.key, self.task.token, new)

    def renewed(self, renewal: Renewal, sent_at: float) -> None:
        """The store has agreed to a renewal that was sent at this time."""
        self.held_since = sent_at
        if renewal.progress is not None:
            self.progress_sent = renewal.progress
