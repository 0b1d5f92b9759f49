"""How long a lease can be trusted: whoever begins or goes on with a run asks here."""

from __future__ import annotations

from rota.clock import SECOND, Millis

__all__ = ["safe_seconds"]

_MARGIN = 2.0


def safe_seconds(lease_ms: Millis) -> float:
    """For so long after the claim or renewal was *sent* the lease is surely ours: 2 s less than it lasts, or a quarter
    less if it is short. From then on somebody else may own the task."""
    lease = lease_ms / SECOND
    return lease - min(_MARGIN, lease / 4)
