"""The statistics of one instance: what it ran, how late, how long, how it ended.

A run is counted once, here, as a handful of additions; the metrics read the sums, and the recorder takes what is new
to the store's history. Both see the same figures, and a run pays for one of them only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

from rota.clock import Instant, Millis
from rota.core.distinct import number_of, smallest
from rota.core.failure import LOST, Failure, FailureKey, FailureReport
from rota.core.history import BOUNDS_MS, Resolution, Slice, bounded_reason
from rota.core.task import Task, Transition
from rota.runtime.running import Running
from rota.runtime.verdict import StopCause, Verdict

__all__ = ["InstanceStats", "RunStats"]

_NO_END: Final = {Transition.RELEASE: "released", Transition.SNOOZE: "snoozed"}
"""How a run can stop without having ended: the same work goes on later."""
_TAKEN: Final = frozenset({StopCause.LOST, StopCause.FENCED})
# Looking a member up in its enum, and hashing one, cost more than all the additions together.
_COMPLETE: Final = Transition.COMPLETE


MOST_FAILURES: Final = 1_000
"""Groups of failures that are counted between two reports."""
_LOST: Final = Failure("lost", "", "The instance that ran it died.")


class _FailureCount:
    """How often a run has failed alike, and whose tasks those were."""

    __slots__ = ("count", "failure", "users")

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        self.count = 0
        self.users: set[int] = set()


class RunStats:
    """Sums over the runs of one type in one trigger mode."""

    __slots__ = ("late", "late_sum_ms", "reasons", "success", "took", "took_max_ms", "took_min_ms", "took_sum_ms")

    def __init__(self) -> None:
        self.success = 0
        self.reasons: dict[str, int] = {}
        """Of what was no success: how many for each class of reason."""
        self.late = [0] * (len(BOUNDS_MS) + 1)
        self.took = [0] * (len(BOUNDS_MS) + 1)
        self.late_sum_ms: Millis = 0
        self.took_sum_ms: Millis = 0
        self.took_min_ms: Millis | None = None
        self.took_max_ms: Millis = 0

    @property
    def error(self) -> int:
        return sum(self.reasons.values())

    def count(self, reason: str | None, took_ms: Millis) -> None:
        """One run: None is the reason of a success."""
        if reason is None:
            self.success += 1
        else:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        self.took[bisect_left(BOUNDS_MS, took_ms)] += 1
        self.took_sum_ms += took_ms
        if took_ms > self.took_max_ms:
            self.took_max_ms = took_ms
        if self.took_min_ms is None or took_ms < self.took_min_ms:
            self.took_min_ms = took_ms

    def add(self, other: RunStats) -> None:
        """Everything that another one has counted."""
        self.success += other.success
        for reason, count in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count
        self.late = [one + more for one, more in zip(self.late, other.late, strict=True)]
        self.took = [one + more for one, more in zip(self.took, other.took, strict=True)]
        self.late_sum_ms += other.late_sum_ms
        self.took_sum_ms += other.took_sum_ms
        known = [least for least in (self.took_min_ms, other.took_min_ms) if least is not None]
        self.took_min_ms = min(known, default=None)
        self.took_max_ms = max(self.took_max_ms, other.took_max_ms)

    def as_slice(self, task_type: str, trigger_mode: str, start_at: Instant) -> Slice:
        """The same as a slice of the store's history."""
        return Slice(
            task_type=task_type,
            trigger_mode=trigger_mode,
            start_at=start_at,
            success=self.success,
            error=self.error,
            reasons=dict(self.reasons),
            late=tuple(self.late),
            took=tuple(self.took),
            took_sum_ms=self.took_sum_ms,
            took_min_ms=self.took_min_ms,
            took_max_ms=self.took_max_ms,
        )


_StatsByType = dict[tuple[str, str], RunStats]


class InstanceStats:
    """An `Observer` that adds up. It lives as long as the process: a worker that comes back goes on in it."""

    def __init__(self) -> None:
        self.lease_losses = 0
        self.stale_writes = 0
        self.reaped_total = 0
        self.claims_total = 0
        self.claimed_total = 0
        # One dictionary inside another: texts know their hash, a pair of them would have to be hashed at every touch.
        self.touches: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Activities, by type and by what they led to: whoever takes one adds it here."""
        self.passed: dict[str, Counter[str]] = {}
        """Runs that stopped without having ended, by type and by how: released, snoozed."""
        self._failures: dict[FailureKey, _FailureCount] = {}
        self._new: _StatsByType = {}
        self._old: _StatsByType = {}

    # --- counting ---

    def run_started(self, running: Running) -> None:
        """Only the end of a run counts."""

    def run_ended(self, running: Running, verdict: Verdict | None, landed: bool) -> None:
        task = running.task
        if running.cause is not None and running.cause in _TAKEN:
            self.lease_losses += 1
        if verdict is None or not landed:
            return  # whoever has taken it over counts it
        reason: str | None = None
        if verdict.transition is not _COMPLETE:
            if verdict.transition in _NO_END:
                self.passed.setdefault(task.task_type, Counter())[_NO_END[verdict.transition]] += 1
                return
            reason = bounded_reason(verdict.reason)
            if running.failure is not None:
                self._count_failure(task, running.failure.id, running.failure)
        stats = self._new.get((task.task_type, task.trigger_mode)) or self._stats_of(task)
        stats.count(reason, running.took_ms)
        # Only a first attempt has waited for its due time; a retry's was set by its back-off.
        if task.attempt == 1 and task.claimed_at is not None:
            late_ms = task.claimed_at - task.scheduled_at
            if late_ms < 0:
                late_ms = 0
            stats.late[bisect_left(BOUNDS_MS, late_ms)] += 1
            stats.late_sum_ms += late_ms

    def write_refused(self, task: Task) -> None:
        self.stale_writes += 1

    def reaped(self, task: Task, now: Instant) -> None:
        self.reaped_total += 1
        took_ms = 0 if task.claimed_at is None else max(0, now - task.claimed_at)
        self._stats_of(task).count(bounded_reason(task.reason or "lost"), took_ms)
        self._count_failure(task, LOST, _LOST)

    def claimed(self, count: int) -> None:
        self.claims_total += 1
        self.claimed_total += count

    def _stats_of(self, task: Task) -> RunStats:
        at = task.task_type, task.trigger_mode
        stats = self._new.get(at)
        if stats is None:
            stats = self._new[at] = RunStats()
        return stats

    def _count_failure(self, task: Task, failure_id: str, failure: Failure) -> None:
        at = task.task_type, failure_id
        counted = self._failures.get(at)
        if counted is None:
            if len(self._failures) >= MOST_FAILURES:
                return
            counted = self._failures[at] = _FailureCount(failure)
        counted.count += 1
        if task.user_id is not None:
            counted.users.add(number_of(task.user_id))

    # --- reading ---

    @property
    def has_news(self) -> bool:
        return bool(self._new)

    def take_failures(self, now: Instant) -> list[FailureReport]:
        """The failures that were counted since the last call."""
        fresh, self._failures = self._failures, {}
        return [
            FailureReport(
                task_type=task_type,
                id=failure_id,
                kind=counted.failure.kind,
                place=counted.failure.place,
                message=counted.failure.message,
                count=counted.count,
                users=smallest(counted.users),
                at=now,
            )
            for (task_type, failure_id), counted in fresh.items()
        ]

    def take_news(self, now: Instant) -> list[Slice]:
        """What was counted since the last call, as slices of the minute that `now` lies in."""
        fresh, self._new = self._new, {}
        _add_all(self._old, fresh.items())
        start_at = Resolution.MINUTE.start_of(now)
        return [stats.as_slice(task_type, mode, start_at) for (task_type, mode), stats in fresh.items()]

    def totals(self) -> dict[str, RunStats]:
        """Everything that was ever counted, by type."""
        found: dict[str, RunStats] = {}
        for summed in (self._old, self._new):
            for (task_type, _), stats in summed.items():
                found.setdefault(task_type, RunStats()).add(stats)
        return found


def _add_all(summed: _StatsByType, more: Iterable[tuple[tuple[str, str], RunStats]]) -> None:
    for at, stats in more:
        known = summed.get(at)
        if known is None:
            summed[at] = stats
        else:
            known.add(stats)
