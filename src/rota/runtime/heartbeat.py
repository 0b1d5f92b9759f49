"""Keeps the leases of an instance, from a thread of its own.

A handler that blocks the event loop must not cost everybody's leases, so the loop takes no part in renewing them. All
leases go into one call. A run past its timeout and grace is no longer renewed: whoever hangs for good is taken over.

**Self-fencing.** A lease is surely ours until `lease` after the moment its last good renewal was *sent*. Two seconds
before that (less for short leases) the run is told to stop, and only a release is tried: from then on somebody else
may own the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rota.clock import SECOND, Instant, Millis
from rota.core.outcome import Answer, Reply
from rota.core.task import Renewal
from rota.logs import get_logger
from rota.runtime.duty import DutyContext
from rota.runtime.executor import Executor
from rota.runtime.lease import safe_seconds
from rota.runtime.loop_watchdog import LoopWatchdog
from rota.runtime.running import Running
from rota.runtime.thread_duty import ThreadDuty, call_on
from rota.runtime.verdict import StopCause

__all__ = ["Heartbeat", "HeartbeatReport"]

LONGEST_PERIOD = 0.5
"""Seconds between renewals at most: a wish to cancel travels with their answer, and is promised within 1 s."""
_SHORTEST_CALL = 0.05
_SHORTEST_PAUSE = 0.01

log = get_logger("rota.heartbeat")


@dataclass(frozen=True, slots=True)
class HeartbeatReport:
    """What one beat did: leases kept, and runs told to stop."""

    renewed: int = 0
    cancelled: int = 0
    lost: int = 0
    fenced: int = 0


class Heartbeat(ThreadDuty[HeartbeatReport]):
    """Renews what the executor runs."""

    name = "heartbeat"

    def __init__(self, context: DutyContext, executor: Executor, *, lease_ms: Millis) -> None:
        super().__init__(context.pulse)
        self._store = context.store
        self._executor = executor
        self._lease_ms = lease_ms
        self._clock = context.clock
        self._call_timeout = context.call_timeout
        self._period = min(lease_ms / 4_000, LONGEST_PERIOD)
        self.patience = lease_ms / SECOND
        self._safe_for = safe_seconds(lease_ms)
        self._watchdog = LoopWatchdog(executor)

    def pause(self, failures: int) -> float:
        """Until the next renewal, or until the first run must be fenced if that is sooner; failures change nothing."""
        at = self._clock.monotonic()
        held = self._held(at)
        if not held:
            return self._period
        fence = min(running.fence_since for running in held) + self._safe_for
        return min(self._period, max(fence - at, 0.0) + _SHORTEST_PAUSE)

    def _held(self, at: float) -> list[Running]:
        return [
            running for running in list(self._executor.running) if running.is_held(at, self._executor.stopping.grace)
        ]

    def _pass_safely(self, failures: int) -> bool:
        is_good = super()._pass_safely(failures)
        if is_good and self._loop is not None:
            self._watchdog.look(self._loop, self._clock.monotonic())
        return is_good

    # --- one beat ---

    def run_once(self, now: Instant | None = None) -> HeartbeatReport:
        """Fence what can no longer be trusted, renew the rest."""
        at = self._clock.monotonic()
        held = self._held(at)
        unsafe = [running for running in held if at - running.fence_since > self._safe_for]
        fenced = sum(self._tell(running, StopCause.FENCED) for running in unsafe)
        kept = [running for running in held if at - running.fence_since <= self._safe_for]
        if not kept:
            return HeartbeatReport(fenced=fenced)
        return self._renew(kept, at, fenced, now)

    def _renew(self, kept: Sequence[Running], sent_at: float, fenced: int, now: Instant | None) -> HeartbeatReport:
        renewals = [running.renewal() for running in kept]
        replies = self._store.renew(renewals, self._lease_ms, now=now, timeout=self._patience(kept, sent_at))
        cancelled = lost = 0
        for running, renewal, reply in zip(kept, renewals, replies, strict=True):
            match self._take(running, renewal, reply, sent_at):
                case StopCause.CANCELLED:
                    cancelled += 1
                case StopCause.LOST:
                    lost += 1
                case _:
                    pass
        return HeartbeatReport(len(kept) - lost, cancelled, lost, fenced)

    def _patience(self, kept: Sequence[Running], at: float) -> float:
        """How long the store may take: not past the moment at which the first of these runs must be fenced."""
        oldest = min(running.fence_since for running in kept)
        return max(_SHORTEST_CALL, min(self._call_timeout, oldest + self._safe_for - at))

    def _take(self, running: Running, renewal: Renewal, reply: Reply, sent_at: float) -> StopCause | None:
        """Act on one answer; the cause if the run was told to stop for it."""
        if reply.answer in (Answer.OK, Answer.CANCEL):
            running.renewed(renewal, sent_at)
        if reply.answer is Answer.OK:
            return None
        # A run that was settled while the renewal was under way is stale for a good reason: `_tell` refuses it.
        cause = StopCause.CANCELLED if reply.answer is Answer.CANCEL else StopCause.LOST
        return cause if self._tell(running, cause) else None

    def _tell(self, running: Running, cause: StopCause) -> bool:
        if not running.tell_to_stop(cause):
            return False
        log.warning(
            "run told to stop",
            task_type=running.task.task_type,
            key=running.task.key,
            token=running.task.token,
            reason=cause.value,
        )
        if self._loop is not None:
            call_on(self._loop, self._executor.stopping.interrupt, running)
        return True
