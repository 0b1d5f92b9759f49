"""A result has come: it is counted, its items are sifted, everybody is told, and the batch goes on or ends.

The first result of a subtask wins. Whatever comes twice, too late, or for a batch that has ended, is counted and never
added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection

from rota.batches.accepting import subtask_rows
from rota.batches.batch import FIRST_ITEMS, Batch, End, Subtask, SubtaskStatus, SubtaskStep, TopUp, what_next
from rota.batches.dedupe import normal, sift
from rota.batches.ending import Ending, progress_of
from rota.batches.generators.base import Item, item_of
from rota.batches.ledger import Ledger
from rota.batches.messages import Created, Failed, read_answer
from rota.batches.split import top_up
from rota.batches.stats import BatchStats
from rota.clock import SECOND, Instant
from rota.errors import InvalidInput
from rota.events.consumer import Effect, JointEffect
from rota.events.delivery import NonRetriable
from rota.events.envelope import Event

__all__ = ["Collecting"]

MAX_ERROR: Final = 2_000
_LONGEST_WAIT_SECONDS: Final = 3_600.0


class Collecting:
    """Collects results, and failures. `max_retries` is how often a subtask may fail and be tried again."""

    def __init__(
        self,
        ending: Ending,
        stats: BatchStats,
        *,
        top_up_rounds: int,
        max_retries: Callable[[], int],
    ) -> None:
        self._ending = ending
        self._stats = stats
        self._top_up_rounds = top_up_rounds
        self._max_retries = max_retries

    async def collect(self, event: Event) -> Effect:
        """What is to be committed with an event of an agent; those that come together are collected together."""
        try:
            message = read_answer(event)
        except InvalidInput as error:
            raise NonRetriable(str(error)) from None
        return JointEffect(self.collect_all, message)

    def collect_all(self, connection: Connection, messages: Sequence[Created | Failed]) -> None:
        """What agents have said, in one go."""
        ledger = self._ending.ledger(connection)
        ledger.hold([message.task_id for message in messages])
        for message in messages:
            if isinstance(message, Created):
                self._created(ledger, message)
            else:
                self._failed(ledger, message)
        ledger.write()

    # --- what an agent says ---

    def _created(self, ledger: Ledger, message: Created) -> None:
        """Items have come."""
        held = ledger.pair(message.task_id)
        if held is None:
            return
        batch, subtask = held
        if not (batch.status.is_open and subtask.status.is_open):
            ledger.save(replace(batch, late=batch.late + 1))
            self._stats.note_result(f"{subtask.id} late {batch.late}", {"late": len(message.items)}, message.usage)
            return
        items = [_item(one) for one in message.items]
        wanted = [item for item in items if item is not None][: min(subtask.count, batch.shortfall)]
        sifted = sift(wanted, ledger.names(batch), batch.similarity / 1_000)
        nameless = items.count(None) + message.invalid
        rows, told = _item_rows(batch, subtask, sifted, ledger.now)
        ledger.add_items(batch, rows, [item.name for item in sifted.kept])
        kept = len(sifted.kept)
        ledger.move(subtask, SubtaskStep.COLLECT, ended_at=ledger.now, kept=kept, error=None, error_class=None)
        invalid = len(sifted.invalid) + nameless
        outcomes = {"kept": kept, "duplicate": len(sifted.duplicates), "invalid": invalid}
        self._stats.note_result(subtask.id, outcomes, message.usage)
        before = batch
        batch = replace(
            batch,
            done=batch.done + 1,
            items=batch.items + kept,
            duplicates=batch.duplicates + len(sifted.duplicates),
            invalid=batch.invalid + invalid,
            tokens_in=batch.tokens_in + message.usage.tokens_in,
            tokens_out=batch.tokens_out + message.usage.tokens_out,
            numbers=batch.numbers + len(rows),
            first_at=_first_at(batch, kept, ledger.now),
        )
        if batch.first_at is not None and before.first_at is None:
            told.append(("first_response", {"items": batch.items, "ms": batch.first_response_ms}))
        self._go_on(ledger, batch, told)

    def _failed(self, ledger: Ledger, message: Failed) -> None:
        """An attempt has failed. One that nobody waits for any longer changes nothing."""
        held = ledger.pair(message.task_id)
        if held is None:
            return
        batch, subtask = held
        if not batch.status.is_open or not ledger.is_current(subtask, message.attempt):
            return
        if message.retry_after is not None and not message.is_final:
            self._make_wait(ledger, subtask, message)
        else:
            self.give_back(ledger, batch, subtask, message.reason, message.error, is_final=message.is_final)

    # --- what becomes of a subtask ---

    def give_back(
        self, ledger: Ledger, batch: Batch, subtask: Subtask, error_class: str, error: str, *, is_final: bool = False
    ) -> None:
        """An attempt of a subtask has come to nothing: back to the queue, or given up after the last one."""
        said = {"error_class": error_class[:100], "error": error[:MAX_ERROR], "errors": subtask.errors + 1}
        is_last = is_final or subtask.errors >= self._max_retries()
        if not is_last and subtask.status is SubtaskStatus.DISPATCHED:
            ledger.move(subtask, SubtaskStep.PUT_BACK, wait_ms=None, **said)
        else:
            ledger.move(subtask, SubtaskStep.GIVE_UP, ended_at=ledger.now, **said)
            self._go_on(ledger, replace(batch, failed=batch.failed + 1), [])

    def _make_wait(self, ledger: Ledger, subtask: Subtask, message: Failed) -> None:
        """The provider wants us to wait: that counts as no attempt."""
        seconds = min(max(message.retry_after or 0.0, 0.1), _LONGEST_WAIT_SECONDS)
        said = {"error_class": message.reason[:100], "error": message.error[:MAX_ERROR]}
        ledger.move(subtask, SubtaskStep.PUT_BACK, wait_ms=round(seconds * SECOND), **said)

    # --- what becomes of the batch ---

    def _go_on(self, ledger: Ledger, batch: Batch, told: list[tuple[str, object]]) -> None:
        decision = what_next(batch, lost=ledger.lost(batch), top_up_rounds=self._top_up_rounds)
        if isinstance(decision, TopUp):
            batch = self._top_up(ledger, batch, decision.missing)
        if isinstance(decision, End) and batch.first_at is None and batch.items:
            batch = replace(batch, first_at=ledger.now)
            told.append(("first_response", {"items": batch.items, "ms": batch.first_response_ms}))
        told.append(("progress", progress_of(batch)))
        batch = ledger.save(ledger.tell(batch, told))
        self._stats.note_first(batch)
        if isinstance(decision, End):
            self._ending.end(ledger, batch, decision)

    def _top_up(self, ledger: Ledger, batch: Batch, missing: int) -> Batch:
        sizes = top_up(missing, batch.size)
        rows, _ = subtask_rows(batch, sizes, batch.rounds + 1, ledger.now, is_offered=False)
        ledger.add_subtasks(rows)
        return replace(batch, rounds=batch.rounds + 1, expected=batch.expected + len(rows))


def _first_at(batch: Batch, kept: int, now: Instant) -> Instant | None:
    if batch.first_at is not None or batch.items + kept < min(FIRST_ITEMS, batch.count):
        return batch.first_at
    return now


def _item(said: object) -> Item | None:
    """What an agent calls an item; None if it has no name."""
    if not isinstance(said, dict):
        return None
    fields: dict[str, Any] = dict(said)  # pyright: ignore[reportUnknownArgumentType]
    name = fields.pop("name", None)
    if not isinstance(name, str) or not name.strip():
        return None
    return item_of(name, {str(key): _text(value) for key, value in fields.items()})


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _item_rows(
    batch: Batch, subtask: Subtask, sifted: Any, now: Instant
) -> tuple[list[dict[str, Any]], list[tuple[str, object]]]:
    """The rows of what came, the dropped ones with their twins, and what is told of those that are kept."""
    sorted_: list[tuple[Item, str, str | None]] = [
        *((item, "kept", None) for item in sifted.kept),
        *((one.item, "duplicate", one.twin) for one in sifted.duplicates),
        *((one.item, "invalid", one.reason) for one in sifted.invalid),
    ]
    rows: list[dict[str, Any]] = []
    told: list[tuple[str, object]] = []
    for number, (item, outcome, twin) in enumerate(sorted_, batch.numbers + 1):
        rows.append(
            {
                "batch_id": batch.id,
                "number": number,
                "subtask_id": subtask.id,
                "outcome": outcome,
                "name": item.name,
                "normal": normal(item.name),
                "fields": msgspec.json.encode(item.fields).decode(),
                "twin": twin,
                "at": now,
            }
        )
        if outcome == "kept":
            told.append(("item", {**item.fields, "number": number, "name": item.name}))
    return rows, told
