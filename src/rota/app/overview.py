"""One look at everything: what runs, what waits, what fails, over all instances.

The dashboard, `rota top` and the API all show this picture, so it is drawn once, here: from kept counters and kept
history, never from a scan. `monitoring`, `failures` and `queues` are the same in the shapes of `/api/monitoring`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from msgspec.structs import replace

from rota.app.rota import Rota
from rota.app.views import SET_ASIDE, failed_in, failure_rate, is_alive, set_aside_in, state_of
from rota.clock import HOUR, MINUTE, Instant, Millis, isoformat
from rota.core.history import Resolution, Slice, percentile
from rota.core.liveness import silent_ms
from rota.core.task import RunRecord, RunStatus
from rota.errors import InvalidInput
from rota.keys import shown_key
from rota.stores.base import Counts, Instance, RunQuery, Store, TypeRecord

__all__ = [
    "Failure",
    "Failures",
    "InstanceView",
    "MinuteView",
    "Monitoring",
    "Overview",
    "Queues",
    "TypeView",
    "failures",
    "minutes_of",
    "monitoring",
    "overview",
    "queues",
]

K = TypeVar("K", bound=Hashable)

MAX_MINUTES: Final = 24 * 60
MAX_HOURS: Final = 168
RECENT: Final = 10
MAX_PAGES: Final = 10
"""How far back failures are looked for, in pages of the run log."""


# --- the picture -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MinuteView:
    """What ran in one minute, over all types and instances."""

    start_at: Instant
    success: int
    failed: int
    set_aside: int
    """Cancelled or discarded."""
    late_p50_ms: Millis | None
    late_p99_ms: Millis | None

    def to_dict(self) -> dict[str, object]:
        return {**vars(self), "start_at": isoformat(self.start_at)}


@dataclass(frozen=True)
class TypeView:
    """One task type: how it stands, and how it did within the minutes looked at."""

    task_type: str
    description: str
    trigger_mode: str
    state: str
    """on, off, frozen (nothing starts) or draining (nothing is taken on)."""
    pending: int
    running: int
    paused: int
    failed: int
    """Dead letters: tasks that ended failed and wait for somebody to look."""
    max_pending: int
    next_due_at: Instant | None
    """When the first pending task is or was due."""
    oldest_pending_ms: Millis
    """For how long that one has been overdue; 0 if nothing is."""
    runs: int
    failures: int
    late_p50_ms: Millis | None
    late_p99_ms: Millis | None
    took_average_ms: Millis | None

    @property
    def failure_rate(self) -> float:
        return failure_rate(self.failures, self.runs)

    def to_dict(self) -> dict[str, object]:
        return {**vars(self), "next_due_at": isoformat(self.next_due_at), "failure_rate": self.failure_rate}


@dataclass(frozen=True)
class InstanceView:
    """One instance at work."""

    instance: str
    host: str
    pid: int
    types: tuple[str, ...]
    running: int
    started_at: Instant
    seen_at: Instant
    silent_ms: Millis
    """How long ago it gave its last sign of life."""
    is_silent: bool
    """Whether that is so long ago that it must be presumed dead."""

    def to_dict(self) -> dict[str, object]:
        return {
            **vars(self),
            "types": list(self.types),
            "started_at": isoformat(self.started_at),
            "seen_at": isoformat(self.seen_at),
        }


@dataclass(frozen=True)
class Overview:
    """Everything at one moment, with the last minutes."""

    now: Instant
    minutes: int
    per_minute: tuple[MinuteView, ...]
    """Oldest first, without a hole; the last one is still going on."""
    types: tuple[TypeView, ...]
    instances: tuple[InstanceView, ...]
    reasons: Mapping[str, int]
    """Runs that were no success, by class of reason, most frequent first."""
    late_p50_ms: Millis | None
    late_p99_ms: Millis | None

    @property
    def runs(self) -> int:
        return sum(minute.success + minute.failed + minute.set_aside for minute in self.per_minute)

    @property
    def failures(self) -> int:
        return sum(minute.failed for minute in self.per_minute)

    @property
    def runs_per_second(self) -> float:
        """Over the last whole minute; over the one going on if there is no other."""
        last = self.per_minute[-2:][0]
        return round((last.success + last.failed + last.set_aside) / 60, 2)

    @property
    def counts(self) -> dict[str, int]:
        """Tasks by state, over all types."""
        names = ("pending", "running", "paused", "failed")
        return {name: sum(getattr(one, name) for one in self.types) for name in names}

    def to_dict(self) -> dict[str, object]:
        return {
            "now": isoformat(self.now),
            "minutes": self.minutes,
            "runs": self.runs,
            "failures": self.failures,
            "runs_per_second": self.runs_per_second,
            "late_p50_ms": self.late_p50_ms,
            "late_p99_ms": self.late_p99_ms,
            "counts": self.counts,
            "reasons": dict(self.reasons),
            "per_minute": [minute.to_dict() for minute in self.per_minute],
            "types": [one.to_dict() for one in self.types],
            "instances": [one.to_dict() for one in self.instances],
        }


async def overview(app: Rota, minutes: int = 60) -> Overview:
    """How everything stands, with the last minutes (at most a day)."""
    if not 1 <= minutes <= MAX_MINUTES:
        raise InvalidInput(f"An overview of {minutes} minutes was asked for; 1 to {MAX_MINUTES} is possible.")
    store = await app.store()
    now = await store.now()
    since_at = Resolution.MINUTE.start_of(now) - (minutes - 1) * MINUTE
    slices, counts, heads, instances, records = await asyncio.gather(
        store.history(Resolution.MINUTE, since_at),
        store.counts(),
        store.next_due_by_type(),
        store.instances(),
        store.list_types(),
    )
    by_type = _by(slices, lambda piece: piece.task_type)
    return Overview(
        now=now,
        minutes=minutes,
        per_minute=tuple(minutes_of(slices, since_at, minutes)),
        types=tuple(
            _type_view(record, counts.get(name, Counts()), heads.get(name), by_type.get(name, []), now)
            for record in records
            for name in [record.task_type.name]
        ),
        instances=tuple(_instance_view(instance, now) for instance in instances),
        reasons=_reasons(slices),
        late_p50_ms=_late(slices, 0.5),
        late_p99_ms=_late(slices, 0.99),
    )


def minutes_of(slices: Sequence[Slice], since_at: Instant, minutes: int) -> Iterable[MinuteView]:
    """What ran in each of so many minutes, oldest first and without a hole."""
    by_start = _by(slices, lambda piece: piece.start_at)
    for start_at in range(since_at, since_at + minutes * MINUTE, MINUTE):
        found = by_start.get(start_at, [])
        yield MinuteView(
            start_at=start_at,
            success=sum(piece.success for piece in found),
            failed=sum(map(failed_in, found)),
            set_aside=sum(map(set_aside_in, found)),
            late_p50_ms=_late(found, 0.5),
            late_p99_ms=_late(found, 0.99),
        )


def _type_view(
    record: TypeRecord, counts: Counts, head_at: Instant | None, slices: Sequence[Slice], now: Instant
) -> TypeView:
    settings = record.effective
    runs = sum(piece.runs for piece in slices)
    return TypeView(
        task_type=settings.name,
        description=settings.description,
        trigger_mode=settings.trigger_mode.value,
        state=state_of(record).value,
        pending=counts.pending,
        running=counts.running,
        paused=counts.paused,
        failed=counts.failed,
        max_pending=settings.max_pending,
        next_due_at=head_at,
        oldest_pending_ms=0 if head_at is None else max(0, now - head_at),
        runs=runs,
        failures=sum(map(failed_in, slices)),
        late_p50_ms=_late(slices, 0.5),
        late_p99_ms=_late(slices, 0.99),
        took_average_ms=round(sum(piece.took_sum_ms for piece in slices) / runs) if runs else None,
    )


def _instance_view(instance: Instance, now: Instant) -> InstanceView:
    beat = instance.beat
    return InstanceView(
        instance=beat.instance,
        host=beat.host,
        pid=beat.pid,
        types=beat.types,
        running=beat.running,
        started_at=beat.started_at,
        seen_at=instance.seen_at,
        silent_ms=silent_ms(instance.seen_at, now),
        is_silent=not is_alive(instance, now),
    )


def _reasons(slices: Iterable[Slice]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for piece in slices:
        total.update(piece.reasons)
    return dict(total.most_common())


def _late(slices: Iterable[Slice], share: float) -> Millis | None:
    return percentile((piece.late for piece in slices), share)


def _by(slices: Iterable[Slice], place: Callable[[Slice], K]) -> dict[K, list[Slice]]:
    found: dict[K, list[Slice]] = defaultdict(list)
    for piece in slices:
        found[place(piece)].append(piece)
    return found


# --- in the shapes of /api/monitoring --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """One run that failed."""

    task_type: str
    user_key: str
    error_message: str | None
    duration_ms: Millis
    timestamp: Instant

    def to_dict(self) -> dict[str, object]:
        return {**vars(self), "timestamp": isoformat(self.timestamp)}


@dataclass(frozen=True)
class Monitoring:
    """What ran within some hours, by type and by trigger mode, with the newest failures."""

    slices: tuple[Slice, ...]
    recent_failures: tuple[Failure, ...]

    def to_dict(self) -> dict[str, object]:
        return {
            "total_executions": sum(piece.runs for piece in self.slices),
            "by_task_type": {
                name: {**_tally(found), **_durations(found)}
                for name, found in sorted(_by(self.slices, lambda piece: piece.task_type).items())
            },
            "by_trigger_mode": {
                mode: _tally(found)
                for mode, found in sorted(_by(self.slices, lambda piece: piece.trigger_mode).items())
            },
            "recent_failures": [failure.to_dict() for failure in self.recent_failures],
        }


@dataclass(frozen=True)
class Failures:
    """How much of each type failed within some hours."""

    hours: int
    slices: tuple[Slice, ...]
    recent_failures: tuple[Failure, ...]

    def to_dict(self) -> dict[str, object]:
        return {
            "time_range_hours": self.hours,
            "total_executions": sum(piece.runs for piece in self.slices),
            "by_task_type": {
                name: _failure_share(found)
                for name, found in sorted(_by(self.slices, lambda piece: piece.task_type).items())
            },
            "recent_failures": [failure.to_dict() for failure in self.recent_failures],
        }


@dataclass(frozen=True)
class Queues:
    """How many tasks of each type wait, and whether the type is on."""

    depths: Mapping[str, tuple[int, bool]]

    def to_dict(self) -> dict[str, object]:
        return {"queues": {name: {"depth": depth, "enabled": on} for name, (depth, on) in self.depths.items()}}


async def monitoring(app: Rota, hours: int = 24) -> Monitoring:
    """What ran within the last hours (1 to 168), over all instances."""
    slices, recent = await _past(await app.store(), _checked(hours, MAX_HOURS))
    return Monitoring(tuple(slices), tuple(recent))


async def failures(app: Rota, hours: int = 1) -> Failures:
    """How much failed within the last hours (1 to 24), over all instances."""
    slices, recent = await _past(await app.store(), _checked(hours, 24))
    return Failures(hours, tuple(slices), tuple(recent))


async def queues(app: Rota) -> Queues:
    """How many tasks of each type wait now."""
    store = await app.store()
    counts, records = await asyncio.gather(store.counts(), store.list_types())
    return Queues(
        {
            record.task_type.name: (counts.get(record.task_type.name, Counts()).pending, record.enabled)
            for record in records
        }
    )


def _checked(hours: int, longest: int) -> int:
    if not 1 <= hours <= longest:
        raise InvalidInput(f"{hours} hours were asked for; 1 to {longest} is possible.")
    return hours


async def _past(store: Store, hours: int) -> tuple[list[Slice], list[Failure]]:
    now = await store.now()
    # Minutes say it exactly, but are kept for a day only.
    resolution = Resolution.MINUTE if hours <= 24 else Resolution.HOUR
    since_at = resolution.start_of(now - hours * HOUR)
    slices, failed, lost = await asyncio.gather(
        store.history(resolution, since_at),
        _newest(store, RunStatus.ERROR, since_at),
        _newest(store, RunStatus.LOST, since_at),
    )
    newest = sorted([*failed, *lost], key=lambda run: run.started_at, reverse=True)
    return slices, [_failure(run) for run in newest[:RECENT]]


async def _newest(store: Store, status: RunStatus, since_at: Instant) -> list[RunRecord]:
    """The newest failures. One page looks at so many runs of any status, and may hold none: hence several."""
    found: list[RunRecord] = []
    query = RunQuery(status=status, limit=RECENT)
    for _ in range(MAX_PAGES):
        page = await store.runs(query)
        found += [run for run in page.items if run.started_at >= since_at and run.reason not in SET_ASIDE]
        is_past = any(run.started_at < since_at for run in page.items)
        if len(found) >= RECENT or page.cursor is None or is_past:
            break
        query = replace(query, cursor=page.cursor)
    return found[:RECENT]


def _failure(run: RunRecord) -> Failure:
    message = run.error or run.reason
    return Failure(run.task_type, shown_key(run.key), message, run.duration_ms, run.started_at)


def _tally(slices: Sequence[Slice]) -> dict[str, object]:
    return {
        "count": sum(piece.runs for piece in slices),
        "success_count": sum(piece.success for piece in slices),
        "failure_count": sum(map(failed_in, slices)),
    }


def _durations(slices: Sequence[Slice]) -> dict[str, object]:
    runs = sum(piece.runs for piece in slices)
    least = [piece.took_min_ms for piece in slices if piece.took_min_ms is not None]
    return {
        "avg_duration_ms": round(sum(piece.took_sum_ms for piece in slices) / runs) if runs else 0,
        "max_duration_ms": max((piece.took_max_ms for piece in slices), default=0),
        "min_duration_ms": min(least, default=0),
    }


def _failure_share(slices: Sequence[Slice]) -> dict[str, object]:
    total, failed = sum(piece.runs for piece in slices), sum(map(failed_in, slices))
    return {"total": total, "failures": failed, "failure_rate": failure_rate(failed, total)}
