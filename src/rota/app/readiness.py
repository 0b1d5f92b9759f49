"""Whether a process can do its work now: the one judgement that every health endpoint shows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from rota.app.rota import Rota
from rota.errors import StoreError
from rota.runtime.health import Health

__all__ = ["Readiness", "readiness"]

_STORE_SECONDS: Final = 2.0
"""How long the store may take to answer: whoever probes does not wait for long."""


@dataclass(frozen=True)
class Readiness:
    """Whether the store answers and, of a process with a worker, whether that can claim."""

    is_store_there: bool
    can_claim: bool | None
    """None: this process serves, and runs no worker."""
    health: Health

    @property
    def ok(self) -> bool:
        return self.is_store_there and self.can_claim is not False

    @property
    def reasons(self) -> list[str]:
        """What is wrong, in words that anybody may read."""
        found = [] if self.can_claim is None else [_first_words(reason) for reason in self.health.reasons]
        if self.can_claim is False and not found:
            found = ["The worker has not begun yet."]
        return found if self.is_store_there else [*found, "The store cannot be reached."]

    def to_dict(self) -> dict[str, Any]:
        """As `/readyz` answers."""
        return {
            "status": "ok" if self.ok else "not_ready",
            "store": "ok" if self.is_store_there else "away",
            "can_claim": self.can_claim,
            "reasons": self.reasons,
            "seconds_since_good": dict(self.health.seconds_since_good or {}),
            "running": self.health.running,
            "spooled": self.health.spooled,
        }


async def readiness(app: Rota, *, is_worker: bool | None = None) -> Readiness:
    """How it stands now. `is_worker` says whether this process is there to work, also before its worker has begun and
    after it has ended; None asks whether one was started."""
    works = app.host.background.is_started if is_worker is None else is_worker
    is_store_there = await _reaches_store(app)
    health = app.health()
    return Readiness(is_store_there, health.ok and app.host.background.is_started if works else None, health)


async def _reaches_store(app: Rota) -> bool:
    try:
        async with asyncio.timeout(_STORE_SECONDS):
            await (await app.store()).now()
    except (StoreError, TimeoutError):
        return False
    return True


def _first_words(reason: str) -> str:
    """That a loop fails, but not the error's text, which may name addresses."""
    return reason.partition(". ")[0].rstrip(".") + "."
