"""Brings what ran here to the store's history, which adds up all instances.

After each sweep, if there is anything new. A store that is away costs nothing but memory, and not much: minutes of one
type add up, and past a limit the oldest are dropped with a word in the log. A run never waits for its recording. If the
answer to a recording is lost, it is made again, so figures of an outage may be counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.clock import Instant, Millis
from rota.core.failure import FailureReport, add_reports
from rota.core.history import Slice, add
from rota.group_commit import MAX_GROUP
from rota.logs import get_logger
from rota.runtime.duty import Duty, DutyContext, with_timeout
from rota.runtime.stats import InstanceStats

__all__ = ["RecordReport", "Recorder"]

MOST_KEPT: Final = 5_000
"""Slices that wait for the store at most: the minutes of 80 types for an hour."""
_LONGEST_PAUSE: Final = 10.0

log = get_logger("rota.recorder")


@dataclass(frozen=True, slots=True)
class RecordReport:
    """How many slices the store took."""

    recorded: int = 0


class Recorder(Duty[RecordReport]):
    """Records, whenever the sweeper has ticked."""

    name = "recorder"

    def __init__(self, context: DutyContext, stats: InstanceStats) -> None:
        super().__init__(context.pulse, context.chance)
        self._store = context.store
        self._stats = stats
        self._clock = context.clock
        self._call_timeout = context.call_timeout
        self._waiting: list[Slice] = []
        self._failures: list[FailureReport] = []
        self._ahead_ms: Millis | None = None
        """By how much the store's clock is ahead of ours; None until a tick has told."""

    def ticked(self, now: Instant) -> None:
        """The store has told the time: what is new belongs to the minute that it lies in."""
        self._ahead_ms = now - self._clock.now()
        if self._stats.has_news or self._waiting or self._failures:
            self.wake()

    async def run_once(self, now: Instant | None = None) -> RecordReport:
        if self._stats.has_news:
            at = await self._time(now)
            self._waiting = self._bounded([*self._waiting, *self._stats.take_news(at)])
            self._failures = add_reports([*self._failures, *self._stats.take_failures(at)])[-MOST_KEPT:]
        recorded = 0
        while self._waiting:
            group = self._waiting[:MAX_GROUP]
            await with_timeout(self._call_timeout, "record", self._store.record(group, now=now))
            del self._waiting[: len(group)]
            recorded += len(group)
        while self._failures:
            reports = self._failures[:MAX_GROUP]
            await with_timeout(self._call_timeout, "count_failures", self._store.count_failures(reports, now=now))
            del self._failures[: len(reports)]
        return RecordReport(recorded)

    def pause_after(self, report: RecordReport) -> float:
        return _LONGEST_PAUSE

    async def _time(self, now: Instant | None) -> Instant:
        if now is not None:
            return now
        if self._ahead_ms is None:
            return await with_timeout(self._call_timeout, "now", self._store.now())
        return self._clock.now() + self._ahead_ms

    def _bounded(self, slices: list[Slice]) -> list[Slice]:
        """The slices, added up, without the oldest if they are too many."""
        summed = add(slices)
        dropped = len(summed) - MOST_KEPT
        if dropped > 0:
            log.warning("history dropped", slices=dropped, reason="the store has been away for too long")
        return summed[max(0, dropped) :]
