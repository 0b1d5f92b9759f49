"""What one process has made and collected, added up; the metrics read it."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Mapping
from typing import Final

from rota.batches.batch import Batch
from rota.batches.messages import Created, Failed, Usage
from rota.clock import SECOND
from rota.events.stats import Spread

__all__ = ["BatchStats"]

_REMEMBERED: Final = 10_000


class BatchStats:
    """It lives as long as the process. A transaction that is run again is counted once."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        """By the type of items, and how the call ended: success, error, throttled."""
        self.call_seconds: defaultdict[str, Spread] = defaultdict(Spread)
        self.first_seconds: defaultdict[str, Spread] = defaultdict(Spread)
        self.complete_seconds: defaultdict[tuple[str, str], Spread] = defaultdict(Spread)
        """By the type of items and the status at the end."""
        self.items: Counter[str] = Counter()
        """By what became of them: kept, duplicate, invalid, late."""
        self.tokens: Counter[str] = Counter()
        """in and out."""
        self._counted: OrderedDict[str, None] = OrderedDict()

    def note_call(self, item_type: str, seconds: float, said: Created | Failed) -> None:
        status = "success" if isinstance(said, Created) else "throttled" if said.reason == "throttled" else "error"
        self.calls[item_type, status] += 1
        self.call_seconds[item_type].observe(seconds)

    def note_result(self, subtask_id: str, outcomes: Mapping[str, int], usage: Usage) -> None:
        """What came of a subtask."""
        if self._is_new(f"result {subtask_id}"):
            self.items.update(outcomes)
            self.tokens.update({"in": usage.tokens_in, "out": usage.tokens_out})

    def note_first(self, batch: Batch) -> None:
        """The first usable items of a batch are there."""
        if batch.first_response_ms is not None and self._is_new(f"first {batch.id}"):
            self.first_seconds[batch.type].observe(batch.first_response_ms / SECOND)

    def note_end(self, batch: Batch) -> None:
        """A batch has ended."""
        if batch.took_ms is not None and self._is_new(f"end {batch.id}"):
            self.complete_seconds[batch.type, batch.status.value].observe(batch.took_ms / SECOND)

    def _is_new(self, what: str) -> bool:
        if what in self._counted:
            return False
        self._counted[what] = None
        if len(self._counted) > _REMEMBERED:
            self._counted.popitem(last=False)
        return True
