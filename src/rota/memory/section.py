"""What a configuration may say about memory: its own section, and options of the types that its handlers serve."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from rota.clock import MINUTE, Millis
from rota.config.section import Section, Setting, number, whole_number
from rota.config.shown import hide
from rota.config.values import as_choice, as_duration, as_text

__all__ = ["MEMORY_SECTION", "MemoryConfig"]


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """What a configuration says under `memory`."""

    anonymous: str = "default"
    settling_ms: Millis = 5 * MINUTE
    """How long a context is left alone before a compression looks at it."""
    embedder: str = "hashing"
    model: str | None = None
    """The embedder's; the one that merges has a name of its own."""
    merge: str = "rules"
    llm_url: str | None = None
    llm_model: str | None = None
    llm_key: str | None = field(default=None, repr=False)


MEMORY_SECTION: Final = Section(
    name="memory",
    values=MemoryConfig,
    settings=(
        Setting("anonymous", "anonymous", as_choice("default", "reject")),
        Setting("settling", "settling_ms", as_duration),
        Setting("embedder", "embedder", as_choice("hashing", "sentence-transformers")),
        Setting("model", "model", as_text),
        Setting("merge", "merge", as_choice("rules", "llm")),
        Setting("llm_url", "llm_url", as_text),
        Setting("llm_model", "llm_model", as_text),
        Setting("llm_key", "llm_key", as_text),
    ),
    type_options={
        "backfill_days": whole_number(0, 3_660),
        "batch_size": whole_number(1, 10_000),
        "retention_days": whole_number(1, 36_600),
        "similarity_threshold": number(0, 1),
    },
    unset={"llm_url": "OPENAI_BASE_URL", "llm_key": "OPENAI_API_KEY"},
    masks={"llm_key": hide},
)
