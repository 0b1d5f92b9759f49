"""Whether an instance is at work still, judged by its last sign of life. Nothing else is known of it from outside."""

from __future__ import annotations

from typing import Final

from rota.clock import SECOND, Instant, Millis

__all__ = ["GRACE_MS", "is_alive", "silent_ms"]

GRACE_MS: Final[Millis] = 5 * SECOND
"""Beyond its lease: a sign comes about once a second, and one that is late by a breath is no death."""


def silent_ms(seen_at: Instant, now: Instant) -> Millis:
    """How long ago the last sign of life was."""
    return max(0, now - seen_at)


def is_alive(seen_at: Instant, lease_ms: Millis, now: Instant) -> bool:
    """Whether there was a sign of life within the lease, give or take a few seconds. If not, it is presumed dead: its
    leases have run out, and the others take over what it ran."""
    return silent_ms(seen_at, now) <= lease_ms + GRACE_MS
