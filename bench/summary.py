"""From turns to figures: the median of the rounds, how far they lie apart, and who is how many times faster."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.side_by_side import Turn

__all__ = ["Best", "Row", "Spread", "best_of", "ratio", "rows_of", "spread_of"]


@dataclass(frozen=True)
class Spread:
    """One figure over the rounds."""

    median: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Row:
    """One queue: its figures, what it cannot do, and where it failed, each with the reason."""

    queue: str
    figures: Mapping[str, Spread] = field(default_factory=dict[str, Spread])
    cannot: Mapping[str, str] = field(default_factory=dict[str, str])
    failed: Mapping[str, str] = field(default_factory=dict[str, str])
    version: str = ""
    settings: str = ""
    recovery: str = ""
    tasks: int = 0

    def median(self, figure: str) -> float | None:
        found = self.figures.get(figure)
        return None if found is None else found.median


@dataclass(frozen=True)
class Best:
    queue: str
    value: float


def spread_of(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values), len(values))


def rows_of(turns: Iterable[Turn]) -> list[Row]:
    """One row for each queue, in the order of their first turns. A turn that failed counts in no median."""
    of_queue: dict[str, list[Turn]] = {}
    for turn in turns:
        of_queue.setdefault(turn.queue, []).append(turn)
    return [_row(queue, its_turns) for queue, its_turns in of_queue.items()]


def _row(queue: str, turns: Sequence[Turn]) -> Row:
    values: dict[str, list[float]] = {}
    for turn in turns:
        for figure, value in turn.figures.items():
            values.setdefault(figure, []).append(value)
    told = next((turn for turn in turns if not turn.failed), turns[0])
    return Row(
        queue,
        figures={figure: spread_of(each) for figure, each in values.items()},
        cannot={what: why for turn in turns for what, why in turn.cannot.items()},
        failed={turn.case: turn.failed for turn in turns if turn.failed},
        version=told.version,
        settings=told.settings,
        recovery=told.recovery,
        tasks=told.tasks,
    )


def best_of(rows: Iterable[Row], figure: str, *, more_is_better: bool) -> Best | None:
    """The best of these queues in a figure; None if it was measured for none of them."""
    found = [Best(row.queue, value) for row in rows if (value := row.median(figure)) is not None]
    if not found:
        return None
    return (max if more_is_better else min)(found, key=lambda best: best.value)


def ratio(own: float | None, other: float | None, *, more_is_better: bool) -> float | None:
    """How many times better the first is; None where one was not measured or is nothing."""
    if not own or not other:
        return None
    return own / other if more_is_better else other / own
