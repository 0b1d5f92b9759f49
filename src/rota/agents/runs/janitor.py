"""The agents' own duty beside the worker: say once in which isolation they run, and forget what was over long ago."""

from __future__ import annotations

import asyncio
from typing import Final

from rota.agents.service import Agents
from rota.errors import RunnerUnavailable, StoreError
from rota.logs import get_logger

__all__ = ["Janitor"]

EVERY: Final = 3_600.0
"""Seconds between two rounds."""

_log = get_logger("rota.agents")


class Janitor:
    """Runs until it is cancelled. Any number of instances may have one: forgetting twice is forgetting once."""

    def __init__(self, agents: Agents, *, every: float = EVERY) -> None:
        self._agents = agents
        self._every = every

    async def run(self) -> None:
        await self.say()
        while True:
            try:
                await self.run_once()
            except StoreError as error:
                _log.warning("old agent schedules not forgotten yet", error=str(error))
            await asyncio.sleep(self._every)

    async def run_once(self) -> int:
        """One round; how many schedules were forgotten."""
        return await self._agents.prune()

    async def say(self) -> None:
        """Look for the isolation now, so that the log says it at the start and not at the first run."""
        try:
            await self._agents.handler.runner()
        except RunnerUnavailable as error:
            # No error yet: not everybody has agents, and a schedule that comes due is held with these words.
            _log.warning("agents do not run here", why=str(error))
