"""Writes down what runs have left so far, while they are under way: their pages show it, and a crash does not take it.

Once a second, and only of runs of which there is something new. The end of a run brings the rest.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rota.clock import Instant
from rota.runtime import capture
from rota.runtime.duty import Duty, DutyContext, with_timeout
from rota.runtime.leaving import left_so_far
from rota.runtime.running import Running
from rota.stores.base import RunLeft, RunRef

__all__ = ["LiveDetails", "LiveDetailsReport"]

PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LiveDetailsReport:
    """Of how many runs something was written."""

    written: int = 0


class LiveDetails(Duty[LiveDetailsReport]):
    """Looks after the runs of one executor."""

    name = "live_details"

    def __init__(self, context: DutyContext, runs: Collection[Running]) -> None:
        super().__init__(context.pulse, context.chance)
        self._store = context.store
        self._runs = runs
        self._call_timeout = context.call_timeout

    async def run_once(self, now: Instant | None = None) -> LiveDetailsReport:
        capture.keep_listening()
        left: list[RunLeft] = []
        for running in [each for each in self._runs if each.details is not None and each.details.has_news]:
            assert running.details is not None
            changes = running.details.changes
            text = None if running.settling else left_so_far(running)
            if text is not None:
                task = running.task
                left.append(RunLeft(RunRef(task.task_type, task.key, task.token), text))
            # Whatever becomes of this call: the next lines bring these along, and so does the end.
            running.details.note_written(changes)
        if left:
            # One that is stale by now has ended meanwhile, or is somebody else's: the heartbeat sees to that.
            await with_timeout(self._call_timeout, "keep_details", self._store.keep_details(left, now=now))
        return LiveDetailsReport(len(left))

    def pause_after(self, report: LiveDetailsReport) -> float:
        return PAUSE_SECONDS
