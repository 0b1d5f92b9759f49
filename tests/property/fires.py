"""What a trigger's fires are, found the plain way: one after the other."""

from __future__ import annotations

from rota.clock import Instant
from rota.triggers import AnyTrigger

__all__ = ["fires_between"]


def fires_between(trigger: AnyTrigger, after: Instant, until: Instant) -> list[Instant]:
    """After the one, and up to the other and with it."""
    fires: list[Instant] = []
    fire_at = trigger.next_after(after)
    while fire_at is not None and fire_at <= until:
        fires.append(fire_at)
        fire_at = trigger.next_after(fire_at)
    return fires
