"""How a batch ends: what is still open is dropped, and everybody is told, in one transaction."""

from __future__ import annotations

from sqlalchemy import Connection

from rota.batches.batch import Batch, End, Subtask, ended
from rota.batches.ledger import Ledger
from rota.batches.messages import finished
from rota.batches.rows import BatchRows
from rota.batches.stats import BatchStats
from rota.events.outbox import Outbox

__all__ = ["Ending", "progress_of"]


def progress_of(batch: Batch) -> dict[str, object]:
    """How far a batch has come, as it is told."""
    return {
        "items": batch.items,
        "count": batch.count,
        "subtasks": batch.expected,
        "done": batch.done,
        "failed": batch.failed,
        "duplicates": batch.duplicates,
        "round": batch.rounds,
    }


class Ending:
    """Ends batches whose rows are held."""

    def __init__(self, rows: BatchRows, outbox: Outbox, stats: BatchStats) -> None:
        self._rows = rows
        self._outbox = outbox
        self._stats = stats

    def ledger(self, connection: Connection) -> Ledger:
        """What this transaction does to batches."""
        return Ledger(self._rows, self._outbox, connection)

    def end(self, ledger: Ledger, batch: Batch, end: End) -> tuple[Batch, list[Subtask]]:
        """The batch after its end, and the subtasks that were dropped: whoever has them in a queue takes them out."""
        dropped = ledger.drop_open(batch)
        batch = ended(batch, end, ledger.now)
        told: dict[str, object] = {
            **progress_of(batch),
            "status": batch.status,
            "reason": batch.reason,
            "shortfall": batch.shortfall,
            "tokens_in": batch.tokens_in,
            "tokens_out": batch.tokens_out,
        }
        batch = ledger.save(ledger.tell(batch, [(batch.status.value, told)]))
        ledger.publish(finished(batch))
        self._stats.note_end(batch)
        return batch, dropped
