"""Retention: ends what has expired, removes what is old enough, and goes on with the erasure of users."""

from __future__ import annotations

from typing import Final

from rota.clock import Instant, Millis
from rota.runtime.duty import Duty, DutyContext, with_timeout
from rota.stores.base import Purged

__all__ = ["PERIOD_SECONDS", "Pruner"]

PERIOD_SECONDS: Final = 60.0
PAGE: Final = 1_000
MAX_PAGES: Final = 100
"""In one pass: a mountain of old records is removed over several minutes, not in one go."""


class Pruner(Duty[Purged]):
    """Prunes page after page while pages are full."""

    name = "pruner"
    patience = 3 * PERIOD_SECONDS

    def __init__(self, context: DutyContext, *, run_ttl_ms: Millis, page: int = PAGE) -> None:
        super().__init__(context.pulse, context.chance)
        self._store = context.store
        self._run_ttl_ms = run_ttl_ms
        self._call_timeout = context.call_timeout
        self._page = page

    async def run_once(self, now: Instant | None = None) -> Purged:
        total = Purged(0, 0, 0, 0)
        for _ in range(MAX_PAGES):
            pruned = await with_timeout(
                self._call_timeout, "prune", self._store.prune(self._run_ttl_ms, self._page, now=now)
            )
            total = Purged(*(a + b for a, b in zip(total, pruned, strict=True)))
            if max(pruned) < self._page:
                break
        await self._erase(now)
        return total

    async def _erase(self, now: Instant | None) -> None:
        """Go on with the erasures that are under way: whoever asked may be gone, or waits for a run to end."""
        for erasure in await with_timeout(self._call_timeout, "erasures", self._store.erasures()):
            before = erasure
            for _ in range(MAX_PAGES):
                call = self._store.erase_user(erasure.user_id, now=now)
                moved = await with_timeout(self._call_timeout, "erase_user", call)
                if not moved.has_more(before):
                    break
                before = moved

    def pause_after(self, report: Purged) -> float:
        # Instances that were started together drift apart.
        return PERIOD_SECONDS * (0.75 + 0.5 * self._chance())
