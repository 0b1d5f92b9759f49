"""What events count, for Prometheus: what this process has published and handled, and how outbox and consumers stand.

A bus or a database that is away fails no scrape: what it would have said is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from rota.errors import RotaError
from rota.events.reading import EventReading, known_consumers, lags_of
from rota.events.stats import BOUNDS, EventStats, Spread

if TYPE_CHECKING:
    from rota.events.events import Events
    from rota.events.part import EventsPart

__all__ = ["MAX_LABELS", "OTHER", "families"]

MAX_LABELS: Final = 100
"""Topics and classes of errors with a label of their own; all others together are "other"."""
OTHER: Final = "other"
LAG_SECONDS: Final = 1.0
"""A scrape waits no longer for the bus."""


async def families(part: EventsPart, events: Events) -> list[Metric]:
    """All that there is to say at this moment."""
    return [*_of_process(events.stats), *await _of_database(events), *await _of_consumers(part, events)]


# --- this process ---


def _of_process(stats: EventStats) -> Iterator[Metric]:
    published = CounterMetricFamily(
        "rota_events_published", "Events that left the outbox, or tried to.", labels=["topic", "outcome"]
    )
    for (topic, outcome), count in _bounded(stats.published).items():
        published.add_metric([topic, outcome], count)
    took = HistogramMetricFamily("rota_publish_seconds", "From the claim of a group until it is noted as sent.")
    took.add_metric([], _buckets(stats.publish_seconds), stats.publish_seconds.total)
    handled = CounterMetricFamily(
        "rota_events_handled",
        "Events that consumers were brought, by what became of them.",
        labels=["consumer", "outcome"],
    )
    for (consumer, outcome), count in sorted(stats.handled.items()):
        handled.add_metric([consumer, outcome], count)
    yield from (published, took, handled)
    yield from _of_agents(stats)


def _of_agents(stats: EventStats) -> Iterator[Metric]:
    """The names that dashboards of agents know."""
    latency = HistogramMetricFamily(
        "agent_processing_latency_seconds", "How long the handler of a consumer took.", labels=["agent"]
    )
    for consumer, spread in sorted(stats.handling_seconds.items()):
        latency.add_metric([consumer], _buckets(spread), spread.total)
    errors = CounterMetricFamily("agent_errors", "Failed attempts, by class of error.", labels=["agent", "error"])
    swapped = Counter({(error, consumer): count for (consumer, error), count in stats.errors.items()})
    for (error, consumer), count in _bounded(swapped).items():
        errors.add_metric([consumer, error], count)
    dead = CounterMetricFamily("agent_dlt", "Events that a consumer has given up.", labels=["agent"])
    for (consumer, outcome), count in sorted(stats.handled.items()):
        if outcome == "dead":
            dead.add_metric([consumer], count)
    yield from (latency, errors, dead)


def _bounded(counts: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """The same with at most so many different first words: in the order in which they came, so who has one keeps it."""
    named = set(list(dict.fromkeys(first for first, _ in counts))[:MAX_LABELS])
    found: Counter[tuple[str, str]] = Counter()
    for (first, second), count in counts.items():
        found[first if first in named else OTHER, second] += count
    return dict(sorted(found.items()))


def _buckets(spread: Spread) -> list[tuple[str, float]]:
    return list(zip([*map(str, BOUNDS), "+Inf"], accumulate(spread.counts), strict=True))


# --- the database, and the bus ---


async def _of_database(events: Events) -> list[Metric]:
    reading = EventReading(events.database)
    try:
        figures, retrying = await reading.figures(), await reading.retries_by_consumer()
    except RotaError:
        return []
    waiting = GaugeMetricFamily("rota_outbox_waiting", "Events that wait to be published.", value=figures.waiting)
    oldest = GaugeMetricFamily(
        "rota_outbox_oldest_seconds", "For how long the first of them has waited.", value=figures.oldest_seconds
    )
    retries = GaugeMetricFamily("rota_event_retries_open", "Events that wait to be tried again.", labels=["consumer"])
    for consumer, count in sorted(retrying.items()):
        retries.add_metric([consumer], count)
    return [waiting, oldest, retries]


async def _of_consumers(part: EventsPart, events: Events) -> list[Metric]:
    try:
        lags = await lags_of(events.bus, await known_consumers(part), seconds=LAG_SECONDS)
    except RotaError:
        return []
    if lags is None:
        return []
    family = GaugeMetricFamily(
        "rota_consumer_lag", "Events that a consumer has not done yet.", labels=["consumer", "topic"]
    )
    for consumer, by_topic in sorted(lags.items()):
        for topic, count in sorted(by_topic.items()):
            family.add_metric([consumer, topic], count)
    return [family]
