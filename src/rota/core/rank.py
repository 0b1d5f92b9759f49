"""Who goes first: priority that ages.

    rank = scheduled_at - priority x aging        the lowest rank runs first

The rank never changes while a task waits, so nothing is ever re-sorted, and yet priority ages: one level is worth
`aging` of waiting (30 s by default), so the lowest of the eleven levels waits at most ten levels behind a stream of
the highest. Within one *lane* (one priority of one type) rank order is due order: each lane is an index by due time,
and a claim merges the heads of the lanes in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge

from rota.clock import Instant, Millis
from rota.core.task import Task

__all__ = ["HIGHEST_PRIORITY", "LOWEST_PRIORITY", "by_rank", "rank"]

LOWEST_PRIORITY = 0
HIGHEST_PRIORITY = 10


def rank(task: Task, aging_ms: Millis) -> tuple[Instant, Instant, str]:
    """The sort key of a due task; ties go to the earlier due time, then to the key."""
    return (task.scheduled_at - task.priority * aging_ms, task.scheduled_at, task.key)


def by_rank(lanes: Iterable[Iterable[Task]], aging_ms: Millis) -> Iterator[Task]:
    """The tasks of several lanes, each in due order, as one sequence in rank order."""
    return merge(*lanes, key=lambda task: rank(task, aging_ms))
