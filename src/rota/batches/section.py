"""What a configuration may say about batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from rota.clock import DAY, HOUR, MINUTE, SECOND, Millis
from rota.config.section import Rule, Section, Setting
from rota.config.shown import hide
from rota.config.values import as_choice, as_duration, as_int, as_text

__all__ = ["BATCHES_SECTION", "BatchesConfig"]


@dataclass(frozen=True, kw_only=True)
class BatchesConfig:
    """What a configuration says under `batches`."""

    generator: str = "offline"
    llm_url: str | None = None
    llm_model: str | None = None
    llm_key: str | None = field(default=None, repr=False)
    requests_per_minute: int | None = None
    """Calls, over all instances, in any minute."""
    tokens_per_minute: int | None = None
    concurrency: int = 32
    """Calls of one instance at a time."""
    in_flight: int | None = None
    """Subtasks that one instance has claimed at a time; those that are not being generated wait for an agent."""
    per_session: int = 8
    """Subtasks of one session at a time, over all instances."""
    call_timeout_ms: Millis = MINUTE
    first_size: int = 8
    top_up_rounds: int = 2
    max_count: int = 500
    deadline_ms: Millis = HOUR
    """Of a batch that says none."""
    owner_items_per_minute: int | None = None
    """Items that one owner may ask for in any minute."""
    retention_ms: Millis = 30 * DAY

    @property
    def most_in_flight(self) -> int:
        return 2 * self.concurrency if self.in_flight is None else self.in_flight


def _is_rate(value: int | None) -> bool:
    return value is None or value >= 1


BATCHES_SECTION: Final = Section(
    name="batches",
    values=BatchesConfig,
    settings=(
        Setting("generator", "generator", as_choice("offline", "openai", "litellm")),
        Setting("llm_url", "llm_url", as_text),
        Setting("llm_model", "llm_model", as_text),
        Setting("llm_key", "llm_key", as_text),
        Setting("requests_per_minute", "requests_per_minute", as_int),
        Setting("tokens_per_minute", "tokens_per_minute", as_int),
        Setting("concurrency", "concurrency", as_int),
        Setting("in_flight", "in_flight", as_int),
        Setting("per_session", "per_session", as_int),
        Setting("call_timeout", "call_timeout_ms", as_duration),
        Setting("first_size", "first_size", as_int),
        Setting("top_up_rounds", "top_up_rounds", as_int),
        Setting("max_count", "max_count", as_int),
        Setting("deadline", "deadline_ms", as_duration),
        Setting("owner_items_per_minute", "owner_items_per_minute", as_int),
        Setting("retention", "retention_ms", as_duration),
    ),
    rules=(
        Rule("requests_per_minute", lambda b: _is_rate(b.requests_per_minute), "Use 1 or more, or leave it out."),
        Rule("tokens_per_minute", lambda b: _is_rate(b.tokens_per_minute), "Use 1 or more, or leave it out."),
        Rule("concurrency", lambda b: 1 <= b.concurrency <= 1_000, "Use 1 to 1,000; 32 is usual."),
        Rule("in_flight", lambda b: 1 <= b.most_in_flight <= 10_000, "Use 1 to 10,000; twice concurrency is usual."),
        Rule("per_session", lambda b: 1 <= b.per_session <= 1_000, "Use 1 to 1,000; 8 is usual."),
        Rule("call_timeout", lambda b: SECOND <= b.call_timeout_ms <= HOUR, "Use 1s to 1h; '60s' is usual."),
        Rule("first_size", lambda b: 1 <= b.first_size <= 50, "Use 1 to 50; 8 is usual."),
        Rule("top_up_rounds", lambda b: 0 <= b.top_up_rounds <= 10, "Use 0 to 10; 2 is usual."),
        Rule("max_count", lambda b: 1 <= b.max_count <= 10_000, "Use 1 to 10,000; 500 is usual."),
        Rule("deadline", lambda b: SECOND <= b.deadline_ms <= DAY, "Use 1s to 1d; '1h' is usual."),
        Rule("owner_items_per_minute", lambda b: _is_rate(b.owner_items_per_minute), "Use 1 or more, or leave it out."),
        Rule("retention", lambda b: b.retention_ms >= MINUTE, "Use at least 1m; '30d' is usual."),
    ),
    unset={
        "llm_url": "OPENAI_BASE_URL",
        "llm_key": "OPENAI_API_KEY",
        "requests_per_minute": "no limit",
        "tokens_per_minute": "no limit",
        "in_flight": "2 x concurrency",
        "owner_items_per_minute": "no limit",
    },
    renamed={"tenant_items_per_minute": "owner_items_per_minute"},
    masks={"llm_key": hide},
)
