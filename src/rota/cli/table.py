"""A list on the screen: a line a row where there is room. Where there is not, ids stay whole and the rest gives way."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["NOTHING", "Column", "print_plain", "print_table"]

NOTHING: Final = "-"
_GAP: Final = 3
"""What lies between two columns."""
_EDGES: Final = 2
"""What lies before the first column and behind the last one."""
_ENOUGH: Final = 20
"""A column that would be narrower than this, and than what it shows, has an id leave the row."""
_LEAST: Final = 12
"""What gives way is no narrower before the others are narrowed too."""
_MOST_LINES: Final = 3
"""So much of what gives way is shown."""
_INDENT: Final = 2
"""How far the other lines of a row stand in behind its first."""

_STYLES: Final[Mapping[str, str]] = {
    "pending": "cyan",
    "new": "cyan",
    "ready": "cyan",
    "queued": "cyan",
    "running": "yellow",
    "retrying": "yellow",
    "dispatched": "yellow",
    "duplicate": "yellow",
    "resuming": "yellow",
    "paused": "magenta",
    "completed": "green",
    "resumed": "green",
    "done": "green",
    "kept": "green",
    "sent": "green",
    "success": "green",
    "ok": "green",
    "failed": "red",
    "dead": "red",
    "expired": "red",
    "error": "red",
    "invalid": "red",
    "lost": "red",
    "cancelled": "dim",
    "warning": "yellow",
    NOTHING: "dim",
}

Rows = Sequence[Sequence[str]]


class Column(NamedTuple):
    """One column of a table: its heading, and the name in the row that it shows."""

    heading: str
    name: str
    is_id: bool = False
    """Whether people copy it: it is never broken. Where the row has no room for it, it has a line of its own."""
    gives_way: bool = False
    """Whether it is cut where there is no room for everything; all others are shown whole."""
    from_width: int = 0
    """Narrower terminals go without it, unless there is room for everything."""


def print_plain(rows: Rows) -> None:
    """For programs: nothing is cut, however wide it is."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")


def print_table(columns: Sequence[Column], rows: Rows, short: Rows) -> None:
    """For people: the rows, or the short ones where there is no room for them."""
    from rich.console import Console

    console = Console(highlight=False)
    for shown in (rows, short):
        needs = _needs(columns, shown)
        if sum(needs) + _GAP * len(needs) <= console.width:
            _print_rich(console, columns, shown)
            return
    if any(column.is_id for column in columns):
        _print_narrow(console, columns, short)
    else:
        _print_rich(console, columns, short)


def _print_rich(console: Console, columns: Sequence[Column], rows: Rows) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column.heading, overflow="fold")
    for row in rows:
        table.add_row(*map(_text, row))
    console.print(table)


def _text(cell: str) -> Text:
    from rich.text import Text

    # As Text: an id like "[red]" is no markup.
    return Text(cell, style=_STYLES.get(cell, ""))


def _needs(columns: Sequence[Column], rows: Rows) -> list[int]:
    """How wide each column would like to be."""
    from rich.cells import cell_len

    return [max(cell_len(column.heading), *(cell_len(row[n]) for row in rows)) for n, column in enumerate(columns)]


# --- where there is little room --------------------------------------------------------------------------------------


class _Layout(NamedTuple):
    """Where each column stands, by its place."""

    above: Sequence[int]
    """Ids on lines of their own above the row: what a list is about stays first."""
    row: Sequence[int]
    below: Sequence[int]
    """Ids on lines of their own below it."""
    widths: Sequence[int]
    """Of the columns in the row."""
    room: int
    """Of a line."""


def _print_narrow(console: Console, columns: Sequence[Column], rows: Rows) -> None:
    from rich.text import Text

    kept = [place for place, column in enumerate(columns) if console.width >= column.from_width]
    shown = [columns[place] for place in kept]
    cells = [[row[place] for place in kept] for row in rows]
    layout = _layout(shown, _needs(shown, cells), console.width - _EDGES)

    def print_lines(row: Sequence[Text]) -> None:
        for line in _lines(console, shown, row, layout):
            line.rstrip()
            # The terminal breaks an id that is wider than itself, and copies it whole.
            console.print(line, soft_wrap=True)

    console.print()
    print_lines([Text(column.heading, style="bold") for column in shown])
    console.print(" " + "─" * (console.width - _EDGES))
    for row in cells:
        print_lines([_text(cell) for cell in row])
    console.print()


def _layout(columns: Sequence[Column], needs: Sequence[int], room: int) -> _Layout:
    """The row has as many ids as leave the other columns room enough. What gives way is narrowed before the others."""

    def narrowed(place: int, most: int, giving: int) -> int:
        column = columns[place]
        return needs[place] if column.is_id else min(needs[place], giving if column.gives_way else most)

    def spare(row: Sequence[int], most: int, giving: int) -> int:
        indent = _INDENT if row[0] > 0 else 0
        return room - indent - sum(narrowed(place, most, giving) for place in row) - _GAP * (len(row) - 1)

    row = [place for place, column in enumerate(columns) if not column.is_id] or [0]
    for place in range(len(columns)):
        if place not in row and spare(longer := sorted([*row, place]), _ENOUGH, _ENOUGH) >= 0:
            row = longer
    most = next((most for most in range(room, 1, -1) if spare(row, most, min(most, _LEAST)) >= 0), 1)
    widths = {place: narrowed(place, most, 0) for place in row}
    left = max(0, spare(row, most, 0))
    giving = sorted((place for place in row if columns[place].gives_way), key=lambda place: needs[place])
    for done, place in enumerate(giving):
        # They share what is left: what is short is whole, before what is long has more.
        widths[place] = max(1, min(needs[place], left // (len(giving) - done)))
        left -= widths[place]
    above = range(row[0])
    below = [place for place in range(row[0], len(columns)) if place not in row]
    return _Layout(above, row, below, [widths[place] for place in row], room)


def _lines(console: Console, columns: Sequence[Column], row: Sequence[Text], layout: _Layout) -> Iterator[Text]:
    """A row of the table, as it is printed."""
    yield from _id_lines([row[place] for place in layout.above], layout.room)
    folded = [
        _folded(console, columns[place], row[place], width)
        for place, width in zip(layout.row, layout.widths, strict=True)
    ]
    for cells in zip_longest(*folded):
        yield _line(cells, layout.widths, _INDENT if layout.above else 0)
    yield from _id_lines([row[place] for place in layout.below], layout.room, _INDENT)


def _id_lines(ids: Sequence[Text], room: int, indent: int = 0) -> Iterator[Text]:
    """All on one line if it has room for them, else each on its own."""
    widths = [one.cell_len for one in ids]
    if indent + sum(widths) + _GAP * (len(ids) - 1) <= room:
        yield from [_line(ids, widths, indent)] if ids else []
    else:
        yield from (_line([one], [width], indent) for one, width in zip(ids, widths, strict=True))


def _folded(console: Console, column: Column, cell: Text, width: int) -> list[Text]:
    if column.is_id:
        return [cell]
    lines = list(cell.wrap(console, width, overflow="fold"))
    if column.gives_way and len(lines) > _MOST_LINES:
        lines = lines[:_MOST_LINES]
        lines[-1].truncate(width - 1)
        lines[-1].rstrip()
        lines[-1].append("…")
    return lines


def _line(cells: Sequence[Text | None], widths: Sequence[int], indent: int = 0) -> Text:
    from rich.text import Text

    line = Text(" " * (1 + indent))
    for cell, width in zip(cells, widths, strict=True):
        shown = Text() if cell is None else cell.copy()
        shown.pad_right(width - shown.cell_len + _GAP)
        line.append_text(shown)
    return line
