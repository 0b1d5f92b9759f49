"""One claim over several types: who is looked at, who starts how many, and when it is worth asking again.

A store looks at the first due tasks of each queue, `core/rank.py` shares out what may start, and the store starts it.
What could not start after all (its serial was busy, somebody else was first) leaves its place to others: look again.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.clock import Instant
from rota.core.rank import DueLine, Head, shares
from rota.core.task import Task
from rota.stores.base import Claimed, ClaimRequest

__all__ = ["Claiming", "Queue"]


class Queue:
    """A wanted type: what it has started, and what it had to offer when it was last looked at."""

    def __init__(self, name: str, want: int, running: int, *, has_own: bool) -> None:
        self.name = name
        self.tasks: list[Task] = []
        self.share = 0
        """How many of those that were seen are to start."""
        self.reach = 0
        """How many of its due tasks are looked at: it could not start more."""
        self._want = want
        self._running = running
        self._has_own = has_own
        self._seen = 0
        self._may_have_more = True
        self._next_due_at: Instant | None = None

    @property
    def shared(self) -> int:
        """How many it has started within the limit."""
        return max(0, len(self.tasks) - self._has_own)

    @property
    def is_idle(self) -> bool:
        return not self.tasks and not self._may_have_more

    def next_due_at(self, now: Instant) -> Instant | None:
        return now if self._may_have_more and self.reach else self._next_due_at

    def could_start(self, limit: int) -> int:
        """How many more it could start if it were alone with what is left of the limit."""
        if not self._may_have_more:
            return 0
        return min(self._want - len(self.tasks), max(0, limit) + self._owns_next)

    def line(self, heads: Sequence[Head]) -> DueLine:
        self._seen = len(heads)
        return DueLine(heads, self._running + len(self.tasks), self._owns_next)

    def take(self, tasks: Sequence[Task], *, next_due_at: Instant | None, is_spent: bool) -> None:
        """What was started of its share. `is_spent`: its rate allows no more until the next due time."""
        self.tasks += tasks
        self._may_have_more = not is_spent and (self._seen > self.share or self._seen >= self.reach)
        self._next_due_at = next_due_at

    @property
    def _owns_next(self) -> bool:
        return self._has_own and not self.tasks


class Claiming:
    """A claim under way, round by round."""

    def __init__(self, request: ClaimRequest) -> None:
        self._limit = sum(max(0, want) for _, want in request.wants) if request.limit is None else request.limit
        self._queues = [
            Queue(name, want, request.running.get(name, 0), has_own=name in request.own) for name, want in request.wants
        ]

    def open_queues(self) -> list[Queue]:
        """Those that may have something to start, and may start it. None: the claim is over."""
        left = self._left()
        found = [queue for queue in self._queues if queue.could_start(left) > 0]
        for queue in found:
            queue.reach = queue.could_start(left)
        return found

    def share_out(self, queues: Sequence[Queue], heads: Sequence[Sequence[Head]]) -> None:
        """Say how many of what was seen each of the queues is to start."""
        lines = [queue.line(seen) for queue, seen in zip(queues, heads, strict=True)]
        for queue, share in zip(queues, shares(lines, self._left()), strict=True):
            queue.share = share

    def _left(self) -> int:
        return self._limit - sum(queue.shared for queue in self._queues)

    def claimed(self, now: Instant) -> Claimed:
        tasks = [task for queue in self._queues for task in queue.tasks]
        due = [at for queue in self._queues if (at := queue.next_due_at(now)) is not None]
        idle = frozenset(queue.name for queue in self._queues if queue.is_idle)
        return Claimed(tasks, min(due, default=None), now, idle)
