"""Signs of life, and taking back what the dead have left: one `tick` a second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rota.call_timeout import seconds_of
from rota.clock import Instant, Millis
from rota.logs import get_logger
from rota.runtime.deadline import within
from rota.runtime.duty import Duty
from rota.runtime.health import Pulse
from rota.stores.base import Beat, Store, Tick

__all__ = ["SweepReport", "Sweeper"]

log = get_logger("rota.sweeper")


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What one sweep found: tasks taken back, leases prolonged instead, and the next due time."""

    reaped: int
    extended: int
    next_due_at: Instant | None
    now: Instant


class Sweeper(Duty[SweepReport]):
    """Ticks, and passes on what the tick has found."""

    name = "sweeper"

    def __init__(
        self,
        store: Store,
        beat: Callable[[], Beat],
        on_tick: Callable[[Tick], None],
        *,
        sweep_ms: Millis,
        pulse: Pulse,
        chance: Callable[[], float],
        call_timeout: float | None = None,
    ) -> None:
        super().__init__(pulse, chance)
        self._store = store
        self._beat = beat
        self._on_tick = on_tick
        self._period = sweep_ms / 1_000
        self._call_timeout = seconds_of(call_timeout)

    async def run_once(self, now: Instant | None = None) -> SweepReport:
        tick = await within(self._call_timeout, "tick", self._store.tick(self._beat(), now=now))
        for task in tick.reaped:
            log.warning(
                "reap",
                task_type=task.task_type,
                key=task.key,
                token=task.last_token,
                reason=task.reason,
                status=task.status.value,
            )
        if tick.extended:
            log.warning("leases extended", leases=tick.extended, reason="nobody had swept for a while")
        self._on_tick(tick)
        return SweepReport(len(tick.reaped), tick.extended, tick.next_due_at, tick.now)

    def pause_after(self, report: SweepReport) -> float:
        return self._period
