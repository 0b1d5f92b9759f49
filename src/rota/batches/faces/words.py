"""How a batch stands, in sentences that a person understands. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from rota.batches.batch import Batch, BatchStatus, EndReason, Subtask, SubtaskStatus
from rota.batches.generators.base import style_text
from rota.dashboard.words import count, span

__all__ = ["account_of", "reason_of", "style_of"]

_SHORT: Final[Mapping[str, str]] = {
    EndReason.DEADLINE: "the deadline passed",
    EndReason.BUDGET: "the budget is used up",
    EndReason.EXHAUSTED: "too few came",
}
_NUMBERS: Final = ("no", "one", "two", "three", "four", "five")


def style_of(batch: Batch) -> str:
    """The style that was asked for, in one line."""
    return " ".join(style_text(msgspec.json.decode(batch.style)).split())


def reason_of(batch: Batch) -> str | None:
    """Why a batch has less than it was asked for, in a few words; None if it has all, or is not over yet."""
    if batch.reason is None or batch.shortfall <= 0:
        return None
    return f"{batch.shortfall:,} missing: {_SHORT.get(batch.reason, batch.reason)}"


def account_of(batch: Batch, subtasks: Sequence[Subtask]) -> str:
    """How a batch stands, or how it ended and why so."""
    had = f"{batch.items:,} of {batch.count:,}"
    match batch.status:
        case BatchStatus.RUNNING:
            open_ = batch.expected - batch.done - batch.failed
            return f"{had} so far. {count(open_, 'subtask')} to go."
        case BatchStatus.PAUSED:
            return f"{had} so far. No subtask is begun now; what agents have begun still comes in."
        case BatchStatus.CANCELLED:
            return f"{had} had come, and stay."
        case BatchStatus.COMPLETED if batch.shortfall <= 0:
            return f"All {batch.count:,} came, in {span(batch.took_ms)}." if batch.count > 1 else "It came."
        case _:
            return f"{had if batch.items else f'None of {batch.count:,}'}: {_why(batch, subtasks)}."


def _why(batch: Batch, subtasks: Sequence[Subtask]) -> str:
    match batch.reason:
        case EndReason.DEADLINE:
            return f"the deadline passed, {span(batch.deadline_at - batch.created_at)} after it was asked for"
        case EndReason.BUDGET:
            return f"the budget of {batch.budget_tokens or 0:,} tokens is used up"
        case _:
            return _and([*_losses(batch, subtasks), *_rounds(batch, subtasks)])


def _losses(batch: Batch, subtasks: Sequence[Subtask]) -> list[str]:
    """What became of those that are missing."""
    failed = [one.count for one in subtasks if one.status is SubtaskStatus.FAILED]
    asked = sum(one.count for one in subtasks if one.status is SubtaskStatus.DONE)
    fewer = asked - batch.items - batch.duplicates - batch.invalid
    said: list[str] = []
    if batch.duplicates:
        alike = "was too much like another" if batch.duplicates == 1 else "were too much like others"
        said.append(f"{batch.duplicates:,} {alike}")
    if batch.invalid:
        said.append(f"{batch.invalid:,} had no usable name")
    if failed:
        said.append(f"{count(len(failed), 'subtask')} for {sum(failed):,} of them failed")
    if fewer > 0:
        said.append(f"agents made {fewer:,} fewer than they were asked for")
    return said or ["agents made too few"]


def _rounds(batch: Batch, subtasks: Sequence[Subtask]) -> list[str]:
    """What asking again has brought."""
    if not batch.rounds:
        return []
    new = sum(one.kept for one in subtasks if one.round)
    rounds = f"{_number(batch.rounds)} more {'round' if batch.rounds == 1 else 'rounds'}"
    return [f"{rounds} brought {'only ' if new else ''}{_number(new)} new {'one' if new == 1 else 'ones'}"]


def _number(value: int) -> str:
    return _NUMBERS[value] if value < len(_NUMBERS) else f"{value:,}"


def _and(parts: Sequence[str]) -> str:
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
