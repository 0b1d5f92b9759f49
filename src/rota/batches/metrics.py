"""What batches count, for Prometheus. The names without a prefix are those that dashboards of batches know.

A database that is away fails no scrape: what it would have said is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from rota.batches.figures import waiting_by_priority
from rota.batches.stats import BatchStats
from rota.batches.work import BatchWork
from rota.errors import RotaError
from rota.events.stats import BOUNDS, Spread

if TYPE_CHECKING:
    from rota.batches.part import BatchesPart

__all__ = ["families"]


async def families(part: BatchesPart, work: BatchWork | None) -> list[Metric]:
    """All that there is to say at this moment."""
    return [*_of_calls(part.stats), *_of_batches(part.stats), *_of_provider(part), *await _of_queue(work)]


def _of_calls(stats: BatchStats) -> Iterator[Metric]:
    tasks = CounterMetricFamily("batch_tasks", "Calls for items, by how they ended.", labels=["type", "status"])
    for (item_type, status), count in sorted(stats.calls.items()):
        tasks.add_metric([item_type, status], count)
    took = HistogramMetricFamily("batch_task_duration_seconds", "How long a call for items took.", labels=["type"])
    for item_type, spread in sorted(stats.call_seconds.items()):
        took.add_metric([item_type], _buckets(spread), spread.total)
    yield from (tasks, took)


def _of_batches(stats: BatchStats) -> Iterator[Metric]:
    first = HistogramMetricFamily(
        "batch_first_response_seconds", "From the request to the first usable items.", labels=["type"]
    )
    for item_type, spread in sorted(stats.first_seconds.items()):
        first.add_metric([item_type], _buckets(spread), spread.total)
    whole = HistogramMetricFamily(
        "rota_batch_complete_seconds", "From the request to the end of a batch.", labels=["type", "status"]
    )
    for (item_type, status), spread in sorted(stats.complete_seconds.items()):
        whole.add_metric([item_type, status], _buckets(spread), spread.total)
    items = CounterMetricFamily("rota_batch_items", "Items that came, by what became of them.", labels=["outcome"])
    for outcome, count in sorted(stats.items.items()):
        items.add_metric([outcome], count)
    tokens = CounterMetricFamily("rota_batch_tokens", "Tokens that models have counted.", labels=["direction"])
    for direction, count in sorted(stats.tokens.items()):
        tokens.add_metric([direction], count)
    yield from (first, whole, items, tokens)


def _of_provider(part: BatchesPart) -> Iterator[Metric]:
    concurrency = part.concurrency
    yield GaugeMetricFamily(
        "rota_provider_concurrency", "Calls at once that the provider bears, as found out.", value=concurrency.limit
    )
    yield CounterMetricFamily(
        "rota_provider_throttled", "Calls that the provider has refused for now.", value=concurrency.throttled
    )


async def _of_queue(work: BatchWork | None) -> list[Metric]:
    if work is None:
        return []
    try:
        waiting = await work.database.read(waiting_by_priority)
    except RotaError:
        return []
    size = GaugeMetricFamily("batch_queue_size", "Subtasks that wait for their turn.", labels=["priority"])
    for priority, count in waiting.items():
        size.add_metric([str(priority)], count)
    return [size]


def _buckets(spread: Spread) -> list[tuple[str, float]]:
    return list(zip([*map(str, BOUNDS), "+Inf"], accumulate(spread.counts), strict=True))
