"""What a service of pages alone does beside them: the duties of its parts, without a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structlog.testing import capture_logs

from rota.app.duties import duties_alone
from rota.app.rota import Rota
from rota.clock import Instant
from rota.part import Part
from rota.runtime.duty import Duty, DutyContext
from rota.testing.waiting import until


class Broken(Duty[None]):
    name = "broken"

    async def run_once(self, now: Instant | None = None) -> None:
        raise RuntimeError("the moon is full")

    def pause_after(self, report: None) -> float:
        return 0.0


class Steady(Duty[None]):
    name = "steady"
    beats = 0
    is_closed = False

    async def run_once(self, now: Instant | None = None) -> None:
        self.beats += 1

    def pause_after(self, report: None) -> float:
        return 0.0

    async def close(self) -> None:
        self.is_closed = True


class Both(Part):
    name = "both"

    def duties(self, context: DutyContext) -> Sequence[Duty[Any]]:
        self.steady = Steady(context.pulse, context.chance)
        return [Broken(context.pulse, context.chance), self.steady]


async def test_a_duty_that_breaks_is_in_the_log_and_the_others_go_on() -> None:
    both = Both()
    async with Rota("memory://", parts=[both]) as app:
        with capture_logs() as log:
            async with duties_alone(app.host):
                await until(lambda: bool(log) and both.steady.beats > 10, "one broke and one goes on")

    assert (log[0]["event"], log[0]["duty"], log[0]["log_level"]) == ("duty failed", "broken", "error")
    assert "the moon is full" in str(log[0]["exc_info"])
    assert both.steady.is_closed, "whoever leaves the block ends them"
