"""Charts as inline SVG, drawn here so that a page is complete when it arrives.

A chart is drawn in a box of its own units and stretched to its place by the browser, so there is no text in it: labels
stand beside it in HTML. Colours come from the stylesheet by class. Every mark carries its words in a `<title>`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from rota.clock import Millis

__all__ = [
    "Bar",
    "Stack",
    "bars",
    "gauge",
    "lines",
    "log_height",
    "nice_top",
    "powers_up_to",
    "progress",
    "spark",
]

_WIDTH: Final = 600
_HEIGHT: Final = 120


@dataclass(frozen=True, slots=True)
class Stack:
    """One column: parts from the bottom up, each a class and a number, and what the column says."""

    parts: tuple[tuple[str, float], ...]
    words: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a sparkline: a class, a height of 0 to 1, and what it says."""

    kind: str
    height: float
    words: str


def nice_top(value: float) -> int:
    """The least round number that is not below the value: where an axis ends."""
    size = 1
    while size * 10 < value:
        size *= 10
    steps = (1, 2, 3, 4, 5, 6, 8, 10) if size == 1 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return next(int(step * size) for step in steps if step * size >= value)


def powers_up_to(value: Millis | None) -> int:
    """How many powers of ten an axis of durations has above 1 ms: at least up to 10 s, at most up to 28 h."""
    return 4 if value is None or value <= 10_000 else min(8, math.ceil(math.log10(value)))


def log_height(value: Millis | None, powers: int = 8) -> float:
    """Where a duration lies between 1 ms (0) and ten to the `powers` ms (1), by its logarithm."""
    if value is None or value <= 1:
        return 0.0
    return min(1.0, math.log10(value) / powers)


def bars(stacks: Sequence[Stack], top: float, label: str) -> Markup:
    """Stacked columns, one beside the other."""
    step = _WIDTH / max(1, len(stacks))
    drawn = [_column(stack, place * step, step, top) for place, stack in enumerate(stacks)]
    return _svg(drawn, label, "bars")


def _column(stack: Stack, left: float, step: float, top: float) -> Markup:
    floor = float(_HEIGHT)
    parts: list[Markup] = []
    for kind, value in stack.parts:
        height = 0 if top <= 0 else min(float(_HEIGHT), value / top * _HEIGHT)
        if height <= 0:
            continue
        floor -= height
        parts.append(_rect(kind, left + step * 0.12, floor, step * 0.76, height))
    hit = _rect("hit", left, 0, step, _HEIGHT)
    return Markup("<g><title>{}</title>{}{}</g>").format(stack.words, hit, Markup("").join(parts))


def lines(series: Sequence[tuple[str, Sequence[float | None]]], words: Sequence[str], label: str) -> Markup:
    """Lines over the same points, heights of 0 to 1; a gap where nothing is known."""
    points = max((len(values) for _, values in series), default=0)
    step = _WIDTH / max(1, points)
    drawn: list[Markup] = []
    for kind, values in series:
        for run in _unbroken(values):
            place = [(index * step + step / 2, _HEIGHT - height * _HEIGHT) for index, height in run]
            if len(place) == 1:  # a lone point is drawn as a short dash
                (x, y) = place[0]
                place = [(x - step * 0.3, y), (x + step * 0.3, y)]
            spots = " ".join(f"{x:.1f},{y:.1f}" for x, y in place)
            drawn.append(Markup('<polyline class="{}" points="{}"/>').format(kind, spots))
    hits = [
        Markup("<g><title>{}</title>{}</g>").format(text, _rect("hit", place * step, 0, step, _HEIGHT))
        for place, text in enumerate(words)
    ]
    return _svg([*drawn, *hits], label, "lines")


def _unbroken(values: Sequence[float | None]) -> Iterable[list[tuple[int, float]]]:
    run: list[tuple[int, float]] = []
    for index, value in enumerate(values):
        if value is not None:
            run.append((index, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def spark(runs: Sequence[Bar], places: int, label: str) -> Markup:
    """The last runs, oldest left: colour says how one ended, height how long it took."""
    width, height = 5 * places, 24
    first = places - len(runs)
    drawn = [
        Markup("<g><title>{}</title>{}</g>").format(
            run.words, _rect(run.kind, 5 * (first + place), height - tall, 4, tall)
        )
        for place, run in enumerate(runs)
        for tall in (4 + run.height * (height - 4),)
    ]
    blank = [_rect("blank", 5 * place, height - 2, 4, 2) for place in range(first)]
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">{}</svg>'
    ).format(width, height, width, height, label, Markup("").join([*blank, *drawn]))


def gauge(value: float, most: float, label: str) -> Markup:
    """How much of a limit is used."""
    share = 0.0 if most <= 0 else min(1.0, value / most)
    kind = "bad" if share >= 0.9 else "warn" if share >= 0.7 else "ok"
    return Markup(
        '<svg class="gauge" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<title>{}</title><rect class="track" width="100" height="6"/>'
        '<rect class="{}" width="{:.1f}" height="6"/></svg>'
    ).format(label, label, kind, share * 100)


def progress(value: float, most: float, kind: str, label: str, *, mark: float | None = None) -> Markup:
    """How far something has come, in the colour of its class; `mark` is a line at a value worth knowing."""
    share, place = (0.0 if most <= 0 or at is None else min(1.0, at / most) * 100 for at in (value, mark))
    line = Markup('<line class="mark" x1="{}" x2="{}" y1="0" y2="6"/>').format(f"{place:.1f}", f"{place:.1f}")
    return Markup(
        '<svg class="gauge progress" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<title>{}</title><rect class="track" width="100" height="6"/><rect class="{}" width="{}" height="6"/>{}</svg>'
    ).format(label, label, kind, f"{share:.1f}", "" if mark is None else line)


def _rect(kind: str, x: float, y: float, width: float, height: float) -> Markup:
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        kind, f"{x:.1f}", f"{y:.1f}", f"{width:.1f}", f"{height:.1f}"
    )


def _svg(parts: Sequence[Markup], label: str, kind: str) -> Markup:
    return Markup(
        '<svg class="plot {}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(kind, _WIDTH, _HEIGHT, escape(label), Markup("").join(parts))
