"""What questions to a store share between the stores: how far one look goes, and what a look is told."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from rota.clock import Instant, Millis
from rota.core import bucket as buckets
from rota.core.bucket import Bucket
from rota.core.task import Task
from rota.core.task_type import RateLimit
from rota.errors import UnknownTaskType

__all__ = ["LOOKED_AT", "Bound", "bounds", "tokens_now", "unknown_type"]

LOOKED_AT: Final = 10_000
"""How many tasks or run records one page looks at, however few of them match."""


def unknown_type(name: str, known: Collection[str]) -> UnknownTaskType:
    """The error for a type that the store has never heard of."""
    names = ", ".join(sorted(known)) or "none yet"
    return UnknownTaskType(f"The store knows no task type {name!r} (it knows: {names}). Register it first.")


def tokens_now(limit: RateLimit | None, bucket: Bucket | None, now: Instant) -> float | None:
    """What one of a type's own buckets holds now; None without a limit."""
    if limit is None:
        return None
    return buckets.refill(bucket, rate=limit.rate, burst=limit.burst, now=now).tokens


class Bound(NamedTuple):
    """Whatever in a lane stands before (scheduled_at, key) ranks before a task."""

    priority: int
    scheduled_at: Instant
    key: str


def bounds(task: Task, lanes: Collection[int], aging_ms: Millis, now: Instant) -> list[Bound]:
    """Up to where the due tasks of each lane rank before a task, as `core/rank.py` has it.

    Of those of its own rank, the ones that were due earlier go first, then the ones whose key comes first.
    """
    found: list[Bound] = []
    for priority in lanes:
        earlier_ms = (task.priority - priority) * aging_ms
        at = task.scheduled_at - earlier_ms
        bound = Bound(priority, at + (earlier_ms > 0), "" if earlier_ms else task.key)
        found.append(bound if bound.scheduled_at <= now else Bound(priority, now + 1, ""))
    return found
