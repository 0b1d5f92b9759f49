"""Whether a worker does its work, and if not, why.

Every loop leaves a mark here after each good pass and after each bad one. A worker is healthy while all of them are
good and none has been silent for too long, and while not too many handlers were given up on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rota.clock import Clock, Instant

__all__ = ["Health", "Pulse"]


@dataclass(frozen=True, slots=True)
class Health:
    """What a health endpoint shows. `seconds_since_good` is None for a loop that never had a good pass.

    `spooled` counts the users whose touches wait on this host's disk; `last_offered_at` is when the store took some.
    """

    ok: bool
    reasons: tuple[str, ...]
    running: int = 0
    abandoned: int = 0
    seconds_since_good: Mapping[str, float | None] | None = None
    spooled: int = 0
    last_offered_at: Instant | None = None


class Pulse:
    """The marks that the loops leave. Any thread may leave one: each is a single assignment."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._patience: dict[str, float] = {}
        self._good_at: dict[str, float] = {}
        self._started: dict[str, float] = {}
        self._trouble: dict[str, str] = {}

    def expect(self, loop: str, patience: float) -> None:
        """From now on this loop has a good pass at least every so many seconds."""
        self._patience[loop] = patience
        self._started[loop] = self._clock.monotonic()

    def good(self, loop: str) -> None:
        self._good_at[loop] = self._clock.monotonic()
        if self._trouble:
            self._trouble.pop(loop, None)

    def bad(self, loop: str, error: BaseException) -> None:
        self._trouble[loop] = f"{type(error).__name__}: {error}"

    def is_troubled(self, loop: str) -> bool:
        return loop in self._trouble

    def reasons(self) -> list[str]:
        """What is wrong, one sentence per loop."""
        now = self._clock.monotonic()
        found = [f"The {loop} fails. {trouble}" for loop, trouble in sorted(self._trouble.items())]
        for loop, patience in sorted(self._patience.items()):
            silent = now - self._good_at.get(loop, self._started[loop])
            if silent > patience and loop not in self._trouble:
                found.append(f"The {loop} has been silent for {silent:.0f} s; {patience:.0f} s is the limit.")
        return found

    def seconds_since_good(self) -> dict[str, float | None]:
        now = self._clock.monotonic()
        return {
            loop: None if loop not in self._good_at else max(0.0, now - self._good_at[loop]) for loop in self._patience
        }
