"""The app that `rota up` serves unless another one is named: what Rota does by itself, and something to try it with."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Final, cast

from rota.agents.part import AgentsPart
from rota.app.rota import Rota
from rota.batches.part import BatchesPart
from rota.config import Config
from rota.core.task_type import TriggerMode
from rota.errors import InvalidInput
from rota.memory.part import MemoryPart
from rota.part import Part
from rota.runtime.run import Run

__all__ = ["MAX_SLEEP_SECONDS", "EchoPart", "build"]

MAX_SLEEP_SECONDS: Final = 60.0
"""An echo may sleep so long; its timeout lies well above."""


def build(config: Config, *, serves: bool = True) -> Rota:
    """The app with every built-in type; `scheduler.tasks` in the configuration changes their settings.

    One that serves none of them tells the store of none: nobody there may have asked for them.
    """
    app = Rota(config, parts=[EchoPart(), MemoryPart(), AgentsPart(), BatchesPart()])
    app.host.types.declares = serves
    return app


class EchoPart(Part):
    """`echo` answers with its payload: a real type, to try schedules, retries, limits and dead letters with."""

    name = "echo"

    def install(self) -> None:
        settings = {
            "description": "Answers with its payload. {'sleep': 3} takes three seconds over it, {'fail': true} fails.",
            "timeout": "2m",
            "max_retries": 2,
            "retry": {"base": "2s", "factor": 2.0, "max": "10s"},
        }
        self.host.declare("echo", echo, TriggerMode.ONCE, settings, decorator="rota up")


async def echo(payload: object, run: Run) -> dict[str, object]:
    seconds, fails = _asked_for(payload)
    await _sleep(seconds, run)
    if fails:
        raise RuntimeError(f"It was told to fail, by its payload. This was attempt {run.attempt}.")
    return {"echo": payload}


def _asked_for(payload: object) -> tuple[float, bool]:
    """How long to sleep, and whether to fail."""
    if not isinstance(payload, Mapping):
        return 0.0, False
    asked = cast("Mapping[str, object]", payload)
    seconds, fails = asked.get("sleep", 0), asked.get("fail", False)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_SLEEP_SECONDS:
        raise InvalidInput(
            f"The payload says sleep: {seconds!r}. Use a number of seconds from 0 to {MAX_SLEEP_SECONDS:.0f}."
        )
    if not isinstance(fails, bool):
        raise InvalidInput(f"The payload says fail: {fails!r}. Use true or false.")
    return float(seconds), fails


async def _sleep(seconds: float, run: Run) -> None:
    """Second by second, so that its progress can be watched."""
    steps = math.ceil(seconds)
    for step in range(steps):
        run.progress({"slept": step, "of": seconds})
        await asyncio.sleep(min(1.0, seconds - step))
