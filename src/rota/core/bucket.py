"""The token bucket: never more than rate x window + burst, whatever the window and however many instances."""

from __future__ import annotations

from typing import NamedTuple

from rota.clock import SECOND, Instant, Millis

__all__ = ["Bucket", "refill", "take", "wait_for"]


class Bucket(NamedTuple):
    """What was in the bucket at an instant."""

    tokens: float
    at: Instant


def refill(bucket: Bucket | None, *, rate: float, burst: int, now: Instant) -> Bucket:
    """The bucket as it is now; one that was never used is full.

    A clock that steps back gives nothing and takes nothing: the time in between must not be credited twice.
    """
    if bucket is None:
        return Bucket(float(burst), now)
    at = max(bucket.at, now)
    return Bucket(min(float(burst), bucket.tokens + (at - bucket.at) * rate / SECOND), at)


def take(bucket: Bucket, amount: int, burst: int) -> Bucket | None:
    """The bucket after taking all of `amount`, or None if there is not enough. A negative amount gives back."""
    # A hair of tolerance: ten refills of a tenth must make one.
    if amount > bucket.tokens + 1e-9:
        return None
    return Bucket(min(float(burst), max(0.0, bucket.tokens - amount)), bucket.at)


def wait_for(bucket: Bucket, amount: int, rate: float) -> Millis:
    """How long until `amount` can be taken, rounded up."""
    missing = amount - bucket.tokens
    return 0 if missing <= 1e-9 else max(1, -int(-missing * SECOND // rate))
