"""What rules under `alerts` can look at because there are batches: what they promise, over a window of time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

from rota.core.alert import AlertUnit
from rota.part import AlertContext, Measured, MeasuredKind

if TYPE_CHECKING:
    from rota.batches.figures import Figures

__all__ = ["ALERT_KINDS"]

BATCHES: Final = "batches"


def _by_figures(amount: Callable[[Figures, int], float]) -> Callable[[AlertContext], Awaitable[Iterable[Measured]]]:
    """A measure of how batches went in the window of each rule; `amount` is given how many a rule wants at least."""

    async def measure(context: AlertContext) -> Iterable[Measured]:
        from rota.batches.figures import figures_of

        return [
            Measured(BATCHES, amount(await figures_of(context.database, rule.window_ms), rule.at_least), rule.name)
            for rule in context.rules
        ]

    return measure


def _failures(figures: Figures, at_least: int) -> float:
    return figures.failed / figures.ended if figures.ended >= at_least else 0.0


def _retry_success(figures: Figures, at_least: int) -> float:
    return figures.rescued / figures.retried if figures.retried >= at_least else 1.0


def _first_response(figures: Figures, at_least: int) -> float:
    return figures.first_p95 if len(figures.first_seconds) >= at_least else 0.0


ALERT_KINDS: Final = (
    MeasuredKind(
        name="batch_failures",
        about="the share of subtasks of batches that were given up",
        unit=AlertUnit.SHARE,
        usual=0.01,
        words="Of the subtasks of {subject} in the last {window}, {value} were given up; the limit is {limit}.",
        measure=_by_figures(_failures),
    ),
    MeasuredKind(
        name="batch_retry_success",
        about="the share of subtasks that had failed and came to a good end all the same",
        unit=AlertUnit.SHARE,
        usual=0.95,
        fires_below=True,
        words="Of the subtasks of {subject} that were tried again in the last {window}, only {value} came to a good"
        " end; the limit is {limit}.",
        measure=_by_figures(_retry_success),
    ),
    MeasuredKind(
        name="batch_first_response",
        about="how long the first usable items of a batch take, for nineteen of twenty batches",
        unit=AlertUnit.SECONDS,
        usual=2.0,
        words="The first items of {subject} took up to {value} in the last {window} (p95); the limit is {limit}.",
        measure=_by_figures(_first_response),
    ),
)
