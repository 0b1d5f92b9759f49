"""A waterfall as a table: one row an attempt or a step, drawn over one axis of time, with its times in words beside it.

What is drawn in a row is for the eye; the words in the same row say it to everybody else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from rota.app.waterfall import Phase, Row, Stretch, Waterfall
from rota.clock import DAY, HOUR, MINUTE, SECOND, Instant, Millis
from rota.dashboard import words
from rota.dashboard.view import View

__all__ = ["Drawn", "DrawnRow", "drawn"]

_MOST_TICKS: Final = 5
_STEPS: Final[tuple[Millis, ...]] = (
    *(base * size for size in (1, 10, 100) for base in (1, 2, 5)),
    *(base * SECOND for base in (1, 2, 5, 10, 15, 30)),
    *(base * MINUTE for base in (1, 2, 5, 10, 15, 30)),
    *(base * HOUR for base in (1, 2, 3, 6, 12)),
    *(base * DAY for base in (1, 2, 7, 14, 30, 90, 365)),
)
"""Where people expect a tick."""
_LEAST_WIDTH: Final = 0.4
"""In percent: even the shortest stretch is seen."""
_HEIGHTS: Final = {Phase.WORKING: (4, 14), Phase.STARTING: (7, 8)}
"""Top and height of a stretch; what is only waited for is thin."""
_THIN: Final = (9, 4)
_SAID: Final = {
    Phase.HELD: "not due for {}",
    Phase.BACK_OFF: "backed off for {}",
    Phase.WAITING: "due for {}",
    Phase.STARTING: "claimed for {}",
    Phase.WORKING: "worked for {}",
}


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """One row of the table."""

    row: Row
    chart: Markup
    url: str | None
    """The page of its run, or of the other task."""
    waited: str
    worked: str
    said: str
    """All of it in a sentence."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the template shows."""

    rows: tuple[DrawnRow, ...]
    ticks: Markup
    waited: str
    worked: str
    is_open: bool


def drawn(view: View, fall: Waterfall, *, here: str | None = None) -> Drawn:
    """The table of a waterfall; the run that the page is about is no link."""
    axis = _Axis(fall)
    return Drawn(
        tuple(_row(view, axis, row, here) for row in fall.rows),
        axis.labels(),
        words.span(fall.waited_ms),
        words.span(fall.worked_ms),
        fall.is_open,
    )


class _Axis:
    """Where an instant lies, in percent of the width."""

    def __init__(self, fall: Waterfall) -> None:
        self.now = fall.now
        self._from_at = fall.from_at
        self._length = fall.to_at - fall.from_at
        self._shows_now = fall.is_open and fall.now < fall.to_at
        step = next((each for each in _STEPS if self._length <= each * _MOST_TICKS), self._length)
        self._ticks = [at for at in range(0, self._length + 1, step) if at < self._length * 0.97 or at == 0]

    def place(self, at: Instant) -> float:
        return min(100.0, max(0.0, (at - self._from_at) / self._length * 100))

    def lines(self) -> Markup:
        """The grid below what is drawn."""
        grid = [_line("grid", tick / self._length * 100) for tick in self._ticks]
        return Markup("").join([*grid, *([_line("now", self.place(self.now))] if self._shows_now else [])])

    def labels(self) -> Markup:
        """The ticks, as spans from the beginning of the axis."""
        texts = [
            Markup('<text x="{}%" y="12"{}>{}</text>').format(
                f"{tick / self._length * 100:.2f}",
                "" if tick == 0 else Markup(' text-anchor="middle"'),
                words.span(tick) if tick else "0",
            )
            for tick in self._ticks
        ]
        return Markup('<svg class="ticks" aria-hidden="true">{}</svg>').format(Markup("").join(texts))


def _row(view: View, axis: _Axis, row: Row, here: str | None) -> DrawnRow:
    parts = [_bar(axis, row, each) for each in row.stretches]
    if row.at is not None:
        parts.append(
            Markup('<circle class="{}" cx="{}%" cy="11" r="5"/>').format(row.outcome, f"{axis.place(row.at):.2f}")
        )
    return DrawnRow(
        row,
        Markup('<svg class="stretches" aria-hidden="true">{}{}</svg>').format(axis.lines(), Markup("").join(parts)),
        _url(view, row, here),
        words.span(row.waited_ms(axis.now)) if row.kind not in ("made", "step", "settled") else "",
        words.span(row.worked_ms(axis.now)) if row.kind not in ("made", "next", "settled") else "",
        _said(view, axis, row),
    )


def _url(view: View, row: Row, here: str | None) -> str | None:
    if row.task is not None:
        return view.identity_url(row.task)
    return None if row.run_id in (None, here) else view.url(f"/runs/{row.run_id}")


def _bar(axis: _Axis, row: Row, stretch: Stretch) -> Markup:
    left = axis.place(stretch.from_at)
    right = axis.place(axis.now if stretch.to_at is None else stretch.to_at)
    wide = max(_LEAST_WIDTH, right - left)
    top, tall = _HEIGHTS.get(stretch.phase, _THIN)
    if row.kind == "step":
        top, tall = 7, 8
    kind = row.outcome if stretch.phase is Phase.WORKING else stretch.phase.value.replace("_", "-")
    said = _SAID[stretch.phase].format(words.span(stretch.lasted_ms(axis.now)))
    return Markup('<rect class="{}" x="{}%" y="{}" width="{}%" height="{}" rx="2"><title>{}</title></rect>').format(
        kind, f"{min(left, 100 - wide):.2f}", top, f"{wide:.2f}", tall, said
    )


def _line(kind: str, place: float) -> Markup:
    return Markup('<line class="{}" x1="{}%" x2="{}%" y1="0" y2="22"/>').format(kind, f"{place:.2f}", f"{place:.2f}")


def _said(view: View, axis: _Axis, row: Row) -> str:
    if row.at is not None:
        return f"{row.outcome} at {view.clock(row.at)}"
    return ", ".join([*_stretches_said(view, axis, row.stretches), *([] if row.reason is None else [row.reason])])


def _stretches_said(view: View, axis: _Axis, stretches: Iterable[Stretch]) -> Iterable[str]:
    for each in stretches:
        lasted = words.span(each.lasted_ms(axis.now))
        yield f"{_SAID[each.phase].format(lasted)} from {view.clock(each.from_at)}{'' if each.to_at else ' on'}"
