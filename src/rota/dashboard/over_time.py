"""What ran over time as charts: how much, how late and how long, minutes put together where there are many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from markupsafe import Markup

from rota.app.overview import MinuteView
from rota.clock import Instant, Millis
from rota.dashboard import words
from rota.dashboard.charts import Stack, bars, lines, log_height
from rota.dashboard.view import View

__all__ = ["MOST_COLUMNS", "Column", "columns_of", "lateness", "per_column", "throughput", "worst"]

MOST_COLUMNS: Final = 60

Column = tuple[Instant, int, int, int, Millis | None, Millis | None]
"""When it begins; successes, failures, what was set aside; lateness p50 and p99."""


def columns_of(per_minute: Sequence[MinuteView]) -> list[Column]:
    """At most so many columns as can be told apart: minutes are put together if there are more."""
    step = -(-len(per_minute) // MOST_COLUMNS)
    groups = [per_minute[start : start + step] for start in range(0, len(per_minute), step)]
    return [
        (
            group[0].start_at,
            sum(minute.success for minute in group),
            sum(minute.failed for minute in group),
            sum(minute.set_aside for minute in group),
            worst(minute.late_p50_ms for minute in group),
            worst(minute.late_p99_ms for minute in group),
        )
        for group in groups
    ]


def per_column(minutes: int) -> str:
    """What a column is of."""
    return "per minute" if minutes == 1 else f"per {minutes} minutes"


def worst(values: Iterable[Millis | None]) -> Millis | None:
    """The longest of them; None if nothing is known."""
    return max((value for value in values if value is not None), default=None)


def throughput(view: View, columns: Sequence[Column], top: int) -> Markup:
    """How many runs there were, and how they ended."""
    stacks = [
        Stack(
            (("success", success), ("error", failed), ("aside", aside)),
            f"{view.clock(at)}: {success:,} succeeded, {failed:,} failed, {aside:,} cancelled or discarded",
        )
        for at, success, failed, aside, _, _ in columns
    ]
    total = sum(success + failed + aside for _, success, failed, aside, _, _ in columns)
    return bars(stacks, top, f"runs over time, {total:,} in all")


def lateness(view: View, columns: Sequence[Column], powers: int) -> Markup:
    """How late runs began: half of them, and the worst of a hundred."""
    said = [
        f"{view.clock(at)}: half within {words.span(p50)}, 99 of 100 within {words.span(p99)}"
        if p99 is not None
        else f"{view.clock(at)}: nothing ran"
        for at, *_, p50, p99 in columns
    ]
    series = [
        (kind, [None if column[place] is None else log_height(column[place], powers) for column in columns])
        for kind, place in (("p99", 5), ("p50", 4))
    ]
    return lines(series, said, "lateness over time")
