"""Who goes first: priority that ages.

    rank = scheduled_at - priority x aging        the lowest rank runs first

The rank never changes while a task waits, so nothing is ever re-sorted, and yet priority ages: one level is worth
`aging` of waiting (30 s by default), so the lowest of the eleven levels waits at most ten levels behind a stream of
the highest. Within one *lane* (one priority of one type) rank order is due order: each lane is an index by due time,
and a claim merges the heads of the lanes in use.

Rank also decides between types, each with its own `aging`: the best head of all says which priority is served. But a
type with ten thousand overdue tasks would rank before one of the same priority whose task is a second old, until all
of them are done. So types whose heads have that same priority take turns, whoever runs the fewest first (`shares`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from heapq import merge
from typing import NamedTuple, overload

from rota.clock import Instant, Millis
from rota.core.task import Task

__all__ = ["HIGHEST_PRIORITY", "LOWEST_PRIORITY", "DueLine", "Head", "Heads", "by_rank", "rank", "shares"]

LOWEST_PRIORITY = 0
HIGHEST_PRIORITY = 10


def rank(task: Task, aging_ms: Millis) -> tuple[Instant, Instant, str]:
    """The sort key of a due task; ties go to the earlier due time, then to the key."""
    return (task.scheduled_at - task.priority * aging_ms, task.scheduled_at, task.key)


def by_rank(lanes: Sequence[Iterable[Task]], aging_ms: Millis) -> Iterator[Task]:
    """The tasks of several lanes, each in due order, as one sequence in rank order."""
    return iter(lanes[0]) if len(lanes) == 1 else merge(*lanes, key=partial(rank, aging_ms=aging_ms))


class Head(NamedTuple):
    """A due task as other types see it."""

    rank: Instant
    due_at: Instant
    priority: int


class DueLine(NamedTuple):
    """What one type has to offer to a claim: its due tasks in rank order, no more of them than it may start.

    `running` says how many of the type run with whoever claims; with `has_own` the first one starts beyond the limit.
    """

    heads: Sequence[Head]
    running: int = 0
    has_own: bool = False


class Heads(Sequence[Head]):
    """Due tasks of one type as other types see them, each when it is looked at: where there is room for all of them,
    nobody looks."""

    def __init__(self, tasks: Sequence[Task], aging_ms: Millis) -> None:
        self._tasks = tasks
        self._aging_ms = aging_ms

    def __len__(self) -> int:
        return len(self._tasks)

    @overload
    def __getitem__(self, at: int) -> Head: ...
    @overload
    def __getitem__(self, at: slice) -> Heads: ...
    def __getitem__(self, at: int | slice) -> Head | Heads:
        if isinstance(at, slice):
            return Heads(self._tasks[at], self._aging_ms)
        task = self._tasks[at]
        return Head(task.scheduled_at - task.priority * self._aging_ms, task.scheduled_at, task.priority)


def shares(lines: Sequence[DueLine], limit: int) -> list[int]:
    """How many each line starts if at most `limit` start in all, besides the first ones of those that have their own.

    One after the other: the head that ranks first says which priority it is, and among the lines whose heads have
    that priority the one that runs the fewest starts one, those of this claim included. The order of the lines breaks
    ties, so the caller says whose turn it is. What `aging` makes of a level counts in the rank, not among equals.
    """
    if sum(len(line.heads) for line in lines) <= limit:
        return [len(line.heads) for line in lines]
    started = [0] * len(lines)
    while open_lines := [at for at, line in enumerate(lines) if _may_start(line, started[at], limit)]:
        if len(open_lines) == 1:
            (at,) = open_lines
            started[at] = _all_of(lines[at], started[at], limit)
            break
        heads = {at: lines[at].heads[started[at]] for at in open_lines}
        served = min(heads.values(), key=_first_served).priority
        at = min((lines[at].running + started[at], at) for at, head in heads.items() if head.priority == served)[1]
        limit -= not _is_own(lines[at], started[at])
        started[at] += 1
    return started


def _first_served(head: Head) -> tuple[Instant, Instant, int]:
    return (head.rank, head.due_at, -head.priority)


def _is_own(line: DueLine, started: int) -> bool:
    return line.has_own and started == 0


def _may_start(line: DueLine, started: int, limit: int) -> bool:
    return started < len(line.heads) and (limit > 0 or _is_own(line, started))


def _all_of(line: DueLine, started: int, limit: int) -> int:
    return min(len(line.heads), started + limit + _is_own(line, started))
