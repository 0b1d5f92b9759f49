"""What a configuration may say about events, and about the Prefect that flows run in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from rota.clock import DAY, MINUTE, SECOND, Millis
from rota.config.section import Rule, Section, Setting
from rota.config.shown import hide
from rota.config.values import as_duration, as_float, as_int, as_text
from rota.core.task_type import RetryPolicy

__all__ = ["EVENTS_SECTION", "PREFECT_SECTION", "EventsConfig", "PrefectConfig"]

_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{0,80}")


@dataclass(frozen=True, kw_only=True)
class EventsConfig:
    """What a configuration says under `events`."""

    prefix: str = "rota."
    """What stands before the name of every topic."""
    partitions: int = 16
    retention_ms: Millis = 7 * DAY
    dead_retention_ms: Millis = 30 * DAY
    max_attempts: int = 5
    retry_base_ms: Millis = SECOND
    retry_factor: float = 2.0
    retry_max_ms: Millis = 5 * MINUTE

    @property
    def retry(self) -> RetryPolicy:
        """How long an event waits that has failed."""
        return RetryPolicy(base_ms=self.retry_base_ms, factor=self.retry_factor, max_ms=self.retry_max_ms)


EVENTS_SECTION: Final = Section(
    name="events",
    values=EventsConfig,
    settings=(
        Setting("prefix", "prefix", as_text),
        Setting("partitions", "partitions", as_int),
        Setting("retention", "retention_ms", as_duration),
        Setting("dead_retention", "dead_retention_ms", as_duration),
        Setting("max_attempts", "max_attempts", as_int),
        Setting("retry.base", "retry_base_ms", as_duration),
        Setting("retry.factor", "retry_factor", as_float),
        Setting("retry.max", "retry_max_ms", as_duration),
    ),
    rules=(
        Rule("prefix", lambda events: bool(_PREFIX.fullmatch(events.prefix)), "Use letters, digits, '.', '_' and '-'."),
        Rule("partitions", lambda events: 1 <= events.partitions <= 256, "Use 1 to 256; 16 is usual."),
        Rule("retention", lambda events: events.retention_ms >= MINUTE, "Use at least 1m; '7d' is usual."),
        Rule(
            "dead_retention",
            lambda events: events.dead_retention_ms >= events.retention_ms,
            "Dead letters are kept at least as long as the others; '30d' is usual.",
        ),
        Rule("max_attempts", lambda events: 1 <= events.max_attempts <= 100, "Use 1 to 100; 5 is usual."),
        Rule("retry.base", lambda events: events.retry_base_ms >= 1, "Use at least 1ms; '1s' is usual."),
        Rule("retry.factor", lambda events: 1 <= events.retry_factor <= 10, "Use 1 to 10; 2 is usual."),
        Rule(
            "retry.max",
            lambda events: events.retry_max_ms >= events.retry_base_ms,
            "It is at least as long as retry.base; '5m' is usual.",
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class PrefectConfig:
    """What a configuration says under `prefect`."""

    api_url: str | None = None
    api_key: str | None = field(default=None, repr=False)


PREFECT_SECTION: Final = Section(
    name="prefect",
    values=PrefectConfig,
    settings=(
        Setting("api_url", "api_url", as_text),
        Setting("api_key", "api_key", as_text),
    ),
    unset={"api_url": "no Prefect", "api_key": "no key"},
    masks={"api_key": hide},
)
