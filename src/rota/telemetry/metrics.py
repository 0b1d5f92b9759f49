"""Metrics in Prometheus' text format: what this instance has seen, and how the whole store stands.

What the instance has seen costs nothing to read: `InstanceStats` has it already. How the store stands is read at a
scrape, at most once in five seconds; every process that is scraped tells the same, so that what runs in a process which
nobody scrapes is seen all the same. Its running totals are called `rota_store_*`, so that nobody adds up both. A store
that is away shows as `rota_store_up 0` instead of failing the scrape.
Labels are bounded: at most a hundred types have names of their own, reasons come in classes, exceptions in a hundred at
most, and no key or user ever appears.
`docs/metrics.md` lists every name.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from typing import Final, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from rota.app.rota import Rota
from rota.app.views import SET_ASIDE, alive
from rota.clock import HOUR, SECOND, Clock, Instant, SystemClock
from rota.core.history import BOUNDS_MS
from rota.errors import RotaError
from rota.logs import get_logger
from rota.part import Part
from rota.runtime.stats import InstanceStats, RunStats
from rota.stores.base import Counts, Failures

__all__ = ["MAX_TYPES", "Metrics"]

MAX_TYPES: Final = 100
"""Types with a label of their own; all others together are "other"."""
MAX_EXCEPTIONS: Final = 100
"""Exceptions, each of a type, with a label of their own: those seen last."""
OTHER: Final = "other"
CACHE_SECONDS: Final = 5.0
READ_SECONDS: Final = 2.0
"""How long a scrape waits for the store."""

_STATES: Final = ("pending", "running", "paused", "failed")
_TOTALS: Final = {"success": "succeeded_total", "error": "errored_total", "lost": "lost_total"}
_LOST: Final = frozenset({"lost", "poison"})

log = get_logger("rota.metrics")

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class _Standing:
    """How the store stood when it was last asked; empty if it did not answer."""

    is_up: bool = False
    now: Instant = 0
    counts: Mapping[str, Counts] = field(default_factory=dict[str, Counts])
    heads: Mapping[str, Instant] = field(default_factory=dict[str, Instant])
    instances: int = 0
    failures: Sequence[Failures] = ()


class Metrics:
    """The metrics of one instance, in a registry of its own."""

    def __init__(self, app: Rota, *, clock: Clock | None = None) -> None:
        self._app = app
        self._clock = clock or SystemClock()
        self._labels: dict[str, str] = {}
        self._standing = _Standing()
        self._of_parts: list[Metric] = []
        self._read_at: float | None = None
        self._gate = asyncio.Lock()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Collected(self._families))

    async def render(self) -> tuple[str, bytes]:
        """The content type and the text of one scrape. Never raises because the store is away."""
        await self._refresh()
        return CONTENT_TYPE_LATEST, generate_latest(self._registry)

    # --- the store ---

    async def _refresh(self) -> None:
        async with self._gate:
            now = self._clock.monotonic()
            if self._read_at is not None and now - self._read_at < CACHE_SECONDS:
                return
            was_up = self._standing.is_up or self._read_at is None
            self._standing = await self._ask(was_up=was_up)
            self._of_parts = [family for part in self._app.host.parts.values() for family in await _metrics_of(part)]
            self._read_at = self._clock.monotonic()

    async def _ask(self, *, was_up: bool) -> _Standing:
        try:
            async with asyncio.timeout(READ_SECONDS):
                store = await self._app.store()
                now, counts, heads, instances, failures = await asyncio.gather(
                    store.now(), store.counts(), store.next_due_by_type(), store.instances(), store.failures()
                )
        except (RotaError, TimeoutError, OSError) as error:
            if was_up:
                log.warning("store away", error=str(error) or type(error).__name__)
            return _Standing()
        living = len(alive(instances, now))
        return _Standing(is_up=True, now=now, counts=counts, heads=heads, instances=living, failures=failures)

    # --- labels ---

    def _label(self, task_type: str) -> str:
        """A type's own name, as long as there is room; who has one keeps it."""
        known = self._labels.get(task_type)
        if known is None:
            known = self._labels[task_type] = task_type if len(self._labels) < MAX_TYPES else OTHER
        return known

    # --- families ---

    def _families(self) -> Iterator[Metric]:
        stats = self._app.host.stats
        yield InfoMetricFamily("rota_build", "The version of Rota.", {"version": _version()})
        yield from self._runs(stats)
        yield from self._instance(stats)
        yield from self._store()
        yield from self._of_parts

    def _runs(self, stats: InstanceStats) -> Iterator[Metric]:
        by_label: defaultdict[str, RunStats] = defaultdict(RunStats)
        for task_type, runs in sorted(stats.totals().items()):
            by_label[self._label(task_type)].add(runs)
        ended = CounterMetricFamily("rota_runs", "Runs that ended here.", labels=["type", "status", "reason"])
        took = HistogramMetricFamily("rota_run_duration_seconds", "How long runs took.", labels=["type"])
        late = HistogramMetricFamily(
            "rota_lateness_seconds", "From the due time of a task to its first claim.", labels=["type"]
        )
        for label, runs in by_label.items():
            for status, reason, count in _outcomes(runs):
                ended.add_metric([label, status, reason], count)
            took.add_metric([label], _buckets(runs.took), runs.took_sum_ms / SECOND)
            late.add_metric([label], _buckets(runs.late), runs.late_sum_ms / SECOND)
        for label, reason, count in self._summed(stats.passed):
            ended.add_metric([label, "skipped", reason], count)
        yield from (ended, took, late)
        touches = CounterMetricFamily("rota_touches", "Activities, by what they led to.", labels=["type", "outcome"])
        for label, outcome, count in self._summed(stats.touches):
            touches.add_metric([label, outcome], count)
        yield touches

    def _summed(self, by_type: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, str, int]]:
        """Label, word and count, over the types that share a label."""
        total: Counter[tuple[str, str]] = Counter()
        for task_type, counts in sorted(by_type.items()):
            label = self._label(task_type)
            for word, count in counts.items():
                total[label, word] += count
        for (label, word), count in sorted(total.items()):
            yield label, word, count

    def _instance(self, stats: InstanceStats) -> Iterator[Metric]:
        health = self._app.health()
        yield _counter("rota_lease_losses", "Runs stopped because their lease was lost.", stats.lease_losses)
        yield _counter("rota_stale_writes", "Ends of runs that were refused as stale.", stats.stale_writes)
        yield _counter("rota_reaped", "Tasks taken back from dead instances by this one.", stats.reaped_total)
        yield _counter("rota_claims", "Claims that were made.", stats.claims_total)
        yield _counter("rota_claimed_tasks", "Tasks that claims have brought.", stats.claimed_total)
        yield _gauge("rota_ready", "Whether this instance can do its work.", int(health.ok))
        yield _gauge("rota_running", "Runs under way here.", health.running)
        yield _gauge("rota_abandoned_handlers", "Handlers that were given up on and still run.", health.abandoned)
        yield _gauge("rota_spool_waiting", "Users whose touches wait on this host's disk.", health.spooled)
        if health.last_offered_at is not None:
            yield _gauge(
                "rota_spool_last_offered_timestamp_seconds",
                "When the store last took touches from the spool.",
                health.last_offered_at / SECOND,
            )
        age = GaugeMetricFamily("rota_tick_age_seconds", "Since a loop's last good pass.", labels=["loop"])
        for loop, seconds in (health.seconds_since_good or {}).items():
            if seconds is not None:
                age.add_metric([loop], seconds)
        yield age

    def _store(self) -> Iterator[Metric]:
        standing = self._standing
        yield _gauge("rota_store_up", "Whether the store answers.", int(standing.is_up))
        if not standing.is_up:
            return
        yield _gauge("rota_instances", "Instances at work on the store.", standing.instances)
        yield from self._queues(standing)
        yield from self._totals(standing.counts)
        yield self._failures(standing)

    def _queues(self, standing: _Standing) -> Iterator[Metric]:
        depth = GaugeMetricFamily("rota_queue_depth", "Tasks in the store.", labels=["type", "state"])
        ratio = GaugeMetricFamily(
            "rota_coalesced_ratio", "The share of activities that joined a task that was there.", labels=["type"]
        )
        for label, found in self._grouped(standing.counts).items():
            for state in _STATES:
                depth.add_metric([label, state], _sum(found, state))
            created, coalesced = _sum(found, "created_total"), _sum(found, "coalesced_total")
            ratio.add_metric([label], coalesced / (created + coalesced) if created + coalesced else 0.0)
        oldest = GaugeMetricFamily(
            "rota_oldest_pending_seconds", "For how long the first pending task is overdue.", labels=["type"]
        )
        heads = {name: standing.heads.get(name, standing.now) for name in {**standing.counts, **standing.heads}}
        for label, found in self._grouped(heads).items():
            oldest.add_metric([label], max(0, standing.now - min(found)) / SECOND)
        yield from (depth, ratio, oldest)

    def _totals(self, counts: Mapping[str, Counts]) -> Iterator[Metric]:
        """What the store has counted, whichever instance did it."""
        created = CounterMetricFamily("rota_store_created", "Tasks that were made, by all instances.", labels=["type"])
        coalesced = CounterMetricFamily(
            "rota_store_coalesced", "Activities that joined a task that was there, of all instances.", labels=["type"]
        )
        ended = CounterMetricFamily("rota_store_runs", "Runs that ended, of all instances.", labels=["type", "status"])
        for label, found in self._grouped(counts).items():
            created.add_metric([label], _sum(found, "created_total"))
            coalesced.add_metric([label], _sum(found, "coalesced_total"))
            for status, total in _TOTALS.items():
                ended.add_metric([label, status], _sum(found, total))
        yield from (created, coalesced, ended)

    def _failures(self, standing: _Standing) -> Metric:
        """Failures of the last hour, by what was raised. Whoever has muted a group does not want to hear of it."""
        recent: Counter[tuple[str, str]] = Counter()
        for group in (failures.group for failures in standing.failures if not failures.group.is_muted(standing.now)):
            at = self._label(group.task_type), group.kind
            if at not in recent and len(recent) >= MAX_EXCEPTIONS:
                at = OTHER, OTHER
            recent[at] += group.count_since(standing.now - HOUR)
        family = GaugeMetricFamily(
            "rota_failures_recent", "Failures of the last hour, by what was raised.", labels=["type", "exception"]
        )
        for at, count in sorted(recent.items()):
            family.add_metric(at, count)
        return family

    def _grouped(self, by_type: Mapping[str, _Value]) -> dict[str, list[_Value]]:
        grouped: defaultdict[str, list[_Value]] = defaultdict(list)
        for task_type, value in sorted(by_type.items()):
            grouped[self._label(task_type)].append(value)
        return grouped


class _Collected(Collector):
    """Hands the families of one scrape to the registry."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()


async def _metrics_of(part: Part) -> list[Metric]:
    """What a part counts. One that cannot tell now, or never, costs the scrape nothing but itself."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            return list(await part.metrics())
    except Exception as error:
        log.warning("no metrics of a part", part=part.name, error=str(error) or type(error).__name__)
        return []


def _sum(found: Iterable[Counts], counter: str) -> int:
    return sum(getattr(counts, counter) for counts in found)


def _outcomes(runs: RunStats) -> Iterator[tuple[str, str, int]]:
    """Status, reason and count, in the words of the run log."""
    if runs.success:
        yield "success", "", runs.success
    for reason, count in sorted(runs.reasons.items()):
        status = "lost" if reason in _LOST else "skipped" if reason in SET_ASIDE else "error"
        yield status, reason, count


def _buckets(counts: list[int]) -> list[tuple[str, float]]:
    bounds = [*(str(bound / SECOND) for bound in BOUNDS_MS), "+Inf"]
    return list(zip(bounds, accumulate(counts), strict=True))


def _counter(name: str, words: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, words, value=value)


def _gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, value=value)


def _version() -> str:
    try:
        return version("rota")
    except PackageNotFoundError:
        return "unknown"
