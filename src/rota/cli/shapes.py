"""How the engine's values look from outside, where the Python face has no value for them."""

from __future__ import annotations

import msgspec

from rota.app.views import settings_of, state_words, trigger_words
from rota.stores.base import Counts, TypeRecord

__all__ = ["type_shape"]


def type_shape(record: TypeRecord, counts: Counts, *, source: str) -> dict[str, object]:
    """A type: what it is, whether it runs, and how many tasks it has. `source` says who knows it."""
    return {
        "name": record.task_type.name,
        "enabled": record.enabled,
        "override": record.overrides.enabled,
        "overrides": msgspec.to_builtins(record.overrides),
        "state": state_words(record),
        "source": source,
        "trigger": trigger_words(record.task_type),
        "settings": settings_of(record.effective),
        "counts": msgspec.to_builtins(counts),
    }
