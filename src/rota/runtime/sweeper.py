"""Signs of life, and taking back what the dead have left: one `tick` a second.

From a thread of its own: a handler that blocks the event loop must not keep the dead from being found, nor make its own
instance look dead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rota.clock import Instant, Millis
from rota.logs import get_logger
from rota.runtime.duty import DutyContext, back_off_seconds
from rota.runtime.thread_duty import ThreadDuty
from rota.stores.base import Beat, Tick

__all__ = ["SweepReport", "Sweeper"]

log = get_logger("rota.sweeper")


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What one sweep found: tasks taken back, leases prolonged instead, and the next due time."""

    reaped: int
    extended: int
    next_due_at: Instant | None
    now: Instant


class Sweeper(ThreadDuty[SweepReport]):
    """Ticks, and tells the event loop what the tick has found."""

    name = "sweeper"

    def __init__(
        self, context: DutyContext, beat: Callable[[], Beat], on_tick: Callable[[Tick], None], *, sweep_ms: Millis
    ) -> None:
        super().__init__(context.pulse)
        self._chance = context.chance
        self._store = context.store
        self._beat = beat
        self._on_tick = on_tick
        self._period = sweep_ms / 1_000
        self._call_timeout = context.call_timeout
        self.patience = 3 * self._period + self._call_timeout
        self._swept_at: Instant | None = None
        """When this instance swept last, by the store's clock; None until it has."""

    def run_once(self, now: Instant | None = None) -> SweepReport:
        beat = self._beat()
        tick = self._store.tick_blocking(beat, now=now, timeout=self._call_timeout)
        for task in tick.reaped:
            log.warning(
                "reap",
                task_type=task.task_type,
                key=task.key,
                token=task.last_token,
                reason=task.reason,
                status=task.status.value,
            )
        self._tell_of_extended(tick, beat.lease_ms)
        self._on_loop(self._on_tick, tick)
        return SweepReport(len(tick.reaped), tick.extended, tick.next_due_at, tick.now)

    def _tell_of_extended(self, tick: Tick, lease_ms: Millis) -> None:
        """Only an outage, a suspended host or a clock that stepped is worth a warning: before it starts nobody expects
        an instance to sweep."""
        before, self._swept_at = self._swept_at, tick.now
        if tick.extended and before is not None and tick.now - before > lease_ms // 2:
            log.warning("leases extended", leases=tick.extended, reason="nobody had swept for a while")

    def pause(self, failures: int) -> float:
        return back_off_seconds(failures, self._chance()) if failures else self._period
