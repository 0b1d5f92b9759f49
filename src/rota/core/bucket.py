"""The token bucket: never more than rate x window + burst, whatever the window and however many instances.

Whoever learns only afterwards what something took owes it: the bucket goes below zero, and nobody is granted anything
until time has paid the debt off.
"""

from __future__ import annotations

from typing import NamedTuple

from rota.clock import SECOND, Instant, Millis

__all__ = ["Bucket", "owe", "rate_bucket", "refill", "start_bucket", "take", "wait_for"]


class Bucket(NamedTuple):
    """What was in the bucket at an instant; below zero, what is owed."""

    tokens: float
    at: Instant


def rate_bucket(task_type: str) -> str:
    """The name of the bucket of a type's `rate_limit`."""
    return f"type:{task_type}"


def start_bucket(task_type: str) -> str:
    """The name of the bucket of a type's `start_limit`. No type's name has a colon."""
    return f"type:{task_type}:starts"


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
    if amount < 0:
        return owe(bucket, amount, burst)
    # A hair of tolerance: ten refills of a tenth must make one.
    if amount > bucket.tokens + 1e-9:
        return None
    return Bucket(max(0.0, bucket.tokens - amount), bucket.at)


def owe(bucket: Bucket, amount: int, burst: int) -> Bucket:
    """The bucket after taking all of `amount`, whatever is in it."""
    return Bucket(min(float(burst), bucket.tokens - amount), bucket.at)


def wait_for(bucket: Bucket, amount: int, rate: float) -> Millis:
    """How long until `amount` can be taken, rounded up; what is owed is paid off first."""
    missing = amount - bucket.tokens
    return 0 if missing <= 1e-9 else max(1, -int(-missing * SECOND // rate))
