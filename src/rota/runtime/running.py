"""One run under way: what the executor, the settler, the heartbeat and the worker know of it."""

from __future__ import annotations

import asyncio
import math
from contextlib import AbstractContextManager

import msgspec

from rota.clock import Clock, Millis, SystemClock
from rota.core.failure import Failure
from rota.core.run_details import Line, Step
from rota.core.task import Renewal, Settlement, Task
from rota.runtime.details import Details
from rota.runtime.handler import Handler
from rota.runtime.raised import Raised
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
    clock: Clock = msgspec.field(default_factory=SystemClock)

    run: Run | None = None
    """What the handler is given, if it asked for it."""
    job: asyncio.Task[None] | None = None
    """The handler's own task. The loop itself keeps no reference to it, also when the handler was given up on."""
    claimed_since: float = 0.0
    """Monotonic seconds: when its claim was sent."""
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
    """What the handler raised, for the log; a cancellation is not among it."""
    stopped_by: BaseException | None = None
    """The cancellation that has met it: it says where the handler was."""
    thread: int | None = None
    """The thread that it runs in, by its identifier."""
    raised: Raised | None = None
    """The same as its child process tells it."""
    details: Details | None = None
    """What it has left so far; None if that is nothing."""
    failure: Failure | None = None
    """What it failed of, once it has."""

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
        self.started = self.claimed_since = self.held_since
        if self.handler is not None and self.handler.run_parameter is not None:
            self.run = Run(self.task, self.timeout_ms, self._note_progress, self._step)

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

    # --- what it leaves; any thread ---

    def note_thread(self, thread: int) -> None:
        self.thread = thread

    def leave(self) -> Details:
        """What it has left so far, to add to it."""
        if self.details is None:
            self.details = Details(self.clock, self.started)
        return self.details

    def keep_line(self, text: str, level: str, logger: str = "") -> None:
        """A line that was logged or printed; what comes after its end is nobody's."""
        if not self.settling:
            self.leave().line(text, level, logger)

    def keep_print(self, text: str, level: str) -> None:
        """What was printed, piece by piece."""
        if not self.settling:
            self.leave().write(text, level)

    def keep_told_line(self, line: Line) -> None:
        """One that its child process has kept."""
        self.leave().add_line(line)

    def keep_told_step(self, place: int, step: Step) -> None:
        """A step that its child process has begun or ended."""
        self.leave().put_step(place, step)

    def report_progress(self, progress: str) -> None:
        """Progress that comes as JSON from a process of its own."""
        self._note_progress(progress)
        if self.run is not None:
            self.run.latest_progress = progress

    def _note_progress(self, progress: str) -> None:
        self.leave().progress(progress)

    def _step(self, name: str) -> AbstractContextManager[None]:
        return self.leave().step(name)

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
