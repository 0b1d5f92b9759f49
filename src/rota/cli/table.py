"""A list on the screen: a line a row where there is room. Where there is not, ids stay whole and the rest gives way.

First an instant says only how far away it is, then columns leave in the order that the list has fixed, then long texts
are cut; and if the row has still no room for an id, the id has a line of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from rota.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["NOTHING", "Column", "View", "chosen", "print_plain", "print_table", "print_wide"]

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
    leaves: int = 0
    """When it leaves where there is no room for everything: 1 is the first to go; 0 stays."""
    is_extra: bool = False
    """Whether it is shown only where it is asked for."""

    @property
    def choice(self) -> str:
        """What people choose it by: its heading, as one word."""
        return self.heading.lower().replace(",", "").replace(" ", "_")


class View(NamedTuple):
    """What of a list somebody wants to see: `--wide` and `--columns`."""

    is_wide: bool = False
    columns: tuple[str, ...] = ()


def chosen(columns: Sequence[Column], view: View | None) -> Sequence[Column]:
    """The columns that are shown, in the order that was asked for. A name that none of them has is refused."""
    if view is None or not view.columns:
        return columns if view is not None and view.is_wide else [one for one in columns if not one.is_extra]
    known = {name: one for one in columns for name in (one.name, one.choice)}
    odd = next((name for name in view.columns if name not in known), None)
    if odd is not None:
        names = ", ".join(one.choice for one in columns)
        raise InvalidInput(f"This list has no column {odd[:100]!r}. Its columns: {names}.")
    return list(dict.fromkeys(known[name] for name in view.columns))


def print_plain(rows: Rows) -> None:
    """For programs: nothing is cut, however wide it is."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")


def print_table(columns: Sequence[Column], rows: Rows, short: Rows) -> list[Column]:
    """For people: the rows, or the short ones where there is no room for them. Answers which columns had to leave."""
    from rich.console import Console

    console = Console(highlight=False)
    for shown in (rows, short):
        needs = _needs(columns, shown)
        if sum(needs) + _GAP * len(needs) <= console.width:
            _print_rich(console, columns, shown)
            return []
    return _print_narrow(console, columns, short)


def print_wide(columns: Sequence[Column], rows: Rows) -> None:
    """For people who want all of it: nothing is cut, and the terminal breaks the lines."""
    from rich.console import Console

    needs = _needs(columns, rows)
    layout = _Layout((), range(len(columns)), (), needs, sum(needs) + _GAP * len(needs))
    _print_lines(Console(highlight=False), columns, rows, layout)


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


def _print_narrow(console: Console, columns: Sequence[Column], rows: Rows) -> list[Column]:
    room = console.width - _EDGES
    kept = _kept(columns, _needs(columns, rows), room)
    shown = [columns[place] for place in kept]
    cells = [[row[place] for place in kept] for row in rows]
    _print_lines(console, shown, cells, _layout(shown, _needs(shown, cells), room))
    return [column for place, column in enumerate(columns) if place not in kept]


def _kept(columns: Sequence[Column], needs: Sequence[int], room: int) -> list[int]:
    """The places of the columns that stay: one after the other leaves, until a row has room for the others.

    Where it never has, the ids have lines of their own, and the others the whole row.
    """
    order = [place for place, column in enumerate(columns) if column.leaves]
    order.sort(key=lambda place: columns[place].leaves)
    ids = [place for place, column in enumerate(columns) if column.is_id and not column.leaves]

    def first_that_fit(among: Sequence[int]) -> list[int] | None:
        for gone in range(len(order) + 1):
            left = [place for place in among if place not in order[:gone]]
            least = [min(needs[place], _ENOUGH) if columns[place].gives_way else needs[place] for place in left]
            if sum(least) + _GAP * (len(left) - 1) <= room:
                return left
        return None

    everywhere = first_that_fit(range(len(columns)))
    if everywhere is not None:
        return everywhere
    others = [place for place, column in enumerate(columns) if not column.is_id]
    in_the_row = first_that_fit(others) or [place for place in others if place not in order]
    return sorted([*ids, *in_the_row])


def _print_lines(console: Console, columns: Sequence[Column], rows: Rows, layout: _Layout) -> None:
    from rich.text import Text

    def print_row(row: Sequence[Text]) -> None:
        for line in _lines(console, columns, row, layout):
            line.rstrip()
            # The terminal breaks an id that is wider than itself, and copies it whole.
            console.print(line, soft_wrap=True)

    console.print()
    print_row([Text(column.heading, style="bold") for column in columns])
    console.print(" " + "─" * (console.width - _EDGES))
    for row in rows:
        print_row([_text(cell) for cell in row])
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
