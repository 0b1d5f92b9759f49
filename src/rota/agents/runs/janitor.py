"""The agents' own duty beside the worker: say once in which isolation they run, and forget what was over long ago.

Where there is no group there are no agents, and nothing is said: whoever adds the first one hears it at its first run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rota.agents.service import Agents
from rota.clock import Instant
from rota.errors import RunnerUnavailable
from rota.logs import get_logger
from rota.runtime.duty import Duty
from rota.runtime.health import Pulse

__all__ = ["Janitor"]

EVERY: Final = 3_600.0
"""Seconds between two rounds."""

_log = get_logger("rota.agents")


class Janitor(Duty[int]):
    """Any number of instances may have one: forgetting twice is forgetting once."""

    name = "agents' janitor"

    def __init__(self, agents: Agents, pulse: Pulse, chance: Callable[[], float], *, every: float = EVERY) -> None:
        super().__init__(pulse, chance)
        self._agents = agents
        self._every = every
        self._has_said = False

    async def run_once(self, now: Instant | None = None) -> int:
        """One round; how many schedules were forgotten."""
        if not self._has_said and await (await self._agents.groups()).list():
            self._has_said = True
            await self.say()
        return await self._agents.prune()

    def pause_after(self, report: int) -> float:
        return self._every

    async def say(self) -> None:
        """Look for the isolation now, so that the log says it at the start and not at the first run."""
        try:
            await self._agents.handler.runner()
        except RunnerUnavailable as error:
            # No error yet: not everybody has agents, and a schedule that comes due is held with these words.
            _log.warning("agents do not run here", why=str(error))
