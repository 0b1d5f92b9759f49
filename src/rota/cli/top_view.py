"""What `rota top` draws: one frame out of one look, for any width and height."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rota.app.overview import InstanceView, Overview, TypeView
from rota.app.results import RunInfo
from rota.cli.output import relative
from rota.clock import SECOND, Instant, Millis, format_duration, from_datetime, isoformat
from rota.config.urls import masked
from rota.printable import printable

__all__ = ["Look", "frame", "sparkline"]

_Item = TypeVar("_Item")

WIDE: Final = 100
"""From this width on everything is shown."""
MOST_TROUBLE: Final = 4
"""Lines that are given to what is wrong."""
_BARS: Final = "▁▂▃▄▅▆▇█"
_STATES: Final = {"on": "green", "off": "dim", "frozen": "cyan", "draining": "yellow"}
_OUTCOMES: Final = {"success": "green", "error": "red", "lost": "red", "skipped": "dim", "coalesced": "dim"}


@dataclass(frozen=True)
class Look:
    """What was seen at one moment, and what was wrong with the last attempt to look again."""

    store_url: str
    seen: Overview
    runs: tuple[RunInfo, ...]
    trouble: str | None = None

    def with_trouble(self, trouble: str) -> Look:
        return replace(self, trouble=trouble)

    def to_dict(self) -> dict[str, object]:
        return {**self.seen.to_dict(), "recent_runs": [run.to_dict() for run in self.runs]}


def frame(
    look: Look,
    *,
    width: int = 120,
    height: int | None = None,
    is_paused: bool = False,
    wants_help: bool = False,
) -> RenderableType:
    """The picture. With a height, what has no room is left out, least important first."""
    if wants_help:
        return _help()
    parts: list[Text | Table] = [_header(look, width, is_paused=is_paused), _figures(look.seen, width)]
    room = None if height is None else height - 2 - _lines_of(parts)
    for make in (_types, _instances, _recent):
        part, used = make(look, width, room)
        if part is None:
            continue
        parts += [Text(""), part]
        room = None if room is None else room - used - 1
    if height is not None:
        parts.append(Text("q quit   p pause   ? help", style="dim"))
    return Group(*parts)


def _lines_of(parts: Sequence[RenderableType]) -> int:
    return sum(part.plain.count("\n") + 1 for part in parts if isinstance(part, Text))


# --- the head --------------------------------------------------------------------------------------------------------


def _header(look: Look, width: int, *, is_paused: bool) -> Text:
    at = (isoformat(look.seen.now) or "")[11:19]
    text = Text(f"rota top  {masked(look.store_url)}  {at}Z", style="bold", no_wrap=True, overflow="ellipsis")
    if is_paused:
        text.append("  paused", style="yellow")
    if look.trouble is not None:
        # What to do about it stands at the end, so it is not cut to one line.
        for line in textwrap.wrap(printable(look.trouble), max(width, 10))[:MOST_TROUBLE]:
            text.append(f"\n{line}", style="red")
    return text


def _figures(seen: Overview, width: int) -> Text:
    counts = seen.counts
    silent = sum(each.is_silent for each in seen.instances)
    alive = len(seen.instances) - silent
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{seen.runs_per_second:g}/s ", style="bold")
    text.append(sparkline([minute.success + minute.failed for minute in seen.per_minute][-_span(width) :]), "green")
    text.append(f"  {seen.runs:,} runs in {_minutes(seen.minutes)}, ")
    text.append(f"{seen.failures:,} failed", style="red" if seen.failures else "")
    text.append(f"\nlate p50 {_short(seen.late_p50_ms)}, p99 {_short(seen.late_p99_ms)}")
    text.append(f"\n{counts['pending']:,} pending, {counts['running']:,} running, {counts['paused']:,} paused, ")
    text.append(f"{counts['failed']:,} dead letters", style="red" if counts["failed"] else "")
    text.append("\n")
    text.append(f"{alive} instance{'' if alive == 1 else 's'}", style="" if alive else "yellow")
    if silent:
        text.append(f", {silent} lost", style="red")
    if seen.reasons:
        failing = ", ".join(f"{printable(reason)} {count:,}" for reason, count in list(seen.reasons.items())[:5])
        text.append(f"   not successful: {failing}", style="yellow")
    return text


def _span(width: int) -> int:
    """How many minutes the little chart has room for."""
    return 60 if width >= WIDE + 20 else 20


def sparkline(values: Sequence[int]) -> str:
    """The values as a row of bars; the highest one is full."""
    most = max(values, default=0)
    if most == 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[-(-value * (len(_BARS) - 1) // most)] for value in values)


# --- the tables ------------------------------------------------------------------------------------------------------


class _Column(NamedTuple):
    heading: str
    from_width: int = 0
    """Narrower terminals go without it."""
    is_number: bool = False
    gives_way: bool = False
    """Whether it is cut where there is no room for everything; all others are shown whole."""


_Part = tuple[Table | None, int]
"""A table, and its lines."""

_GAP: Final = 2
_LEAST: Final = 6
"""Columns that give way keep so much."""


def _table(columns: Sequence[_Column], rows: Iterable[Iterable[Text]], width: int, *words: Text) -> _Part:
    """The rows, with as many columns as the terminal has room for; words stand on lines of their own below."""
    kept = [place for place, column in enumerate(columns) if width >= column.from_width]
    cells = [[row[place] for place in kept] for row in map(list, rows)]
    shown = [columns[place] for place in kept]
    table = Table(box=None, header_style="bold dim", pad_edge=False, padding=(0, _GAP, 0, 0))
    for column, most in zip(shown, _widths(shown, cells, width), strict=True):
        justify = "right" if column.is_number else "left"
        table.add_column(column.heading, justify=justify, no_wrap=True, overflow="ellipsis", max_width=most)
    for row in cells:
        table.add_row(*row)
    lines = Table.grid()
    lines.add_row(table)
    for word in words:
        lines.add_row(word)
    return lines, 1 + len(cells) + len(words)


def _widths(columns: Sequence[_Column], cells: Sequence[Sequence[Text]], width: int) -> list[int]:
    """How wide each column may be: what does not give way as wide as it is, the others share the rest."""
    needs = [
        max(len(column.heading), *(row[place].cell_len for row in cells), 0) for place, column in enumerate(columns)
    ]
    room = (
        width - _GAP * len(columns) - sum(need for need, one in zip(needs, columns, strict=True) if not one.gives_way)
    )
    giving = sorted((need, place) for place, need in enumerate(needs) if columns[place].gives_way)
    for done, (need, place) in enumerate(giving):
        needs[place] = min(need, max(_LEAST, room // (len(giving) - done)))
        room -= needs[place]
    return needs


_TYPE_COLUMNS: Final = (
    _Column("TYPE", gives_way=True),
    _Column("STATE", from_width=70),
    _Column("PENDING", is_number=True),
    _Column("RUNNING", is_number=True, from_width=50),
    _Column("FAILED", is_number=True),
    _Column("OVERDUE", is_number=True, from_width=60),
    _Column("RUNS", is_number=True, from_width=WIDE),
    _Column("FAILED %", is_number=True, from_width=WIDE),
    _Column("LATE P50", is_number=True, from_width=WIDE),
    _Column("P99", is_number=True, from_width=WIDE),
    _Column("TOOK", is_number=True, from_width=WIDE),
)


def _type_cells(one: TypeView) -> Iterator[Text]:
    """In the order of the columns."""
    yield Text(printable(one.task_type))
    yield Text(one.state, style=_STATES.get(one.state, ""))
    yield _number(one.pending)
    yield _number(one.running, "yellow")
    yield _number(one.failed, "red")
    yield Text(_short(one.oldest_pending_ms or None))
    yield _number(one.runs)
    yield Text(f"{one.failure_rate:.1%}" if one.runs else "-")
    yield Text(_short(one.late_p50_ms))
    yield Text(_short(one.late_p99_ms))
    yield Text(_short(one.took_average_ms))


def _number(value: int, style: str = "") -> Text:
    return Text(f"{value:,}", style=style if value else "dim")


def _types(look: Look, width: int, room: int | None) -> _Part:
    shown = sorted(look.seen.types, key=lambda one: (-one.oldest_pending_ms, -one.running, -one.pending, one.task_type))
    rows, more = _that_fit(shown, None if room is None else max(3, room // 2))
    words = _more(more) if rows else [_words("no types yet: a worker brings them", "dim")]
    return _table(_TYPE_COLUMNS, map(_type_cells, rows), width, *words)


_INSTANCE_COLUMNS: Final = (
    _Column("INSTANCE"),
    _Column("HOST", gives_way=True),
    _Column("PID", from_width=50),
    _Column("RUNNING", from_width=60),
    _Column("SEEN"),
    _Column("TYPES", gives_way=True, from_width=WIDE),
)


def _instances(look: Look, width: int, room: int | None) -> _Part:
    if room is not None and room < 8:
        return None, 0
    rows, more = _that_fit(look.seen.instances, None if room is None else max(2, room // 4))
    words = _more(more) if rows else [_words("no instances running: start `rota up` or `rota worker`", "yellow")]
    return _table(_INSTANCE_COLUMNS, (_instance_cells(one, look.seen.now) for one in rows), width, *words)


def _instance_cells(one: InstanceView, now: Instant) -> Iterator[Text]:
    yield Text(one.instance[:8])
    yield Text(printable(one.host))
    yield Text(str(one.pid))
    yield _number(one.running, "yellow")
    yield Text("lost, " * one.is_silent + relative(one.seen_at, now), style="red" if one.is_silent else "")
    yield Text(printable(", ".join(one.types)), style="dim")


_RUN_COLUMNS: Final = (
    _Column("LATEST RUNS", gives_way=True),
    _Column("KEY", gives_way=True),
    _Column("STATUS"),
    _Column("STARTED", from_width=50),
    _Column("TOOK", from_width=60),
    _Column("WHY", gives_way=True, from_width=WIDE),
)


def _recent(look: Look, width: int, room: int | None) -> _Part:
    if room is not None and room < 3:
        return None, 0
    rows, _ = _that_fit(look.runs, None if room is None else room - 2)
    words = () if rows else (_words("none yet", "dim"),)
    return _table(_RUN_COLUMNS, (_run_cells(run, look.seen.now) for run in rows), width, *words)


def _run_cells(run: RunInfo, now: Instant) -> Iterator[Text]:
    yield Text(printable(run.task_type))
    yield Text(printable(run.user_key))
    yield Text(run.status.value, style=_OUTCOMES.get(run.status.value, ""))
    yield Text(relative(from_datetime(run.started_at), now))
    yield Text(_short(run.duration_ms))
    yield Text(printable(run.error or run.reason or ""), style="dim")


def _more(count: int) -> list[Text]:
    return [_words(f"... {count} more", "dim")] if count else []


def _words(words: str, style: str) -> Text:
    return Text(words, style=style, no_wrap=True, overflow="ellipsis")


def _that_fit(items: Sequence[_Item], room: int | None) -> tuple[Sequence[_Item], int]:
    """The first ones, and how many more there are."""
    if room is None or len(items) <= room:
        return items, 0
    kept = max(1, room - 1)
    return items[:kept], len(items) - kept


# --- small words -----------------------------------------------------------------------------------------------------


def _short(span: Millis | None) -> str:
    """A duration in at most two units; a dash for none."""
    if span is None:
        return "-"
    if span < SECOND:
        return f"{span}ms"
    if span < 60 * SECOND:
        return f"{span / SECOND:.1f}s"
    return format_duration(span - span % (60 * SECOND if span >= 3_600 * SECOND else SECOND))


def _minutes(minutes: int) -> str:
    return format_duration(minutes * 60 * SECOND)


def _help() -> Text:
    return Text(
        "\n".join(
            (
                "rota top",
                "",
                "  q       quit (Ctrl-C too)",
                "  p       pause: the picture stands still until p is pressed again",
                "  ?       this page, and back",
                "",
                "/s        runs a second over the last whole minute; the chart has a bar a minute",
                "late      how long after its time a task began: half of them p50, all but one in a hundred p99",
                "OVERDUE   for how long the first pending task of a type should have been running",
                "FAILED    dead letters: `rota dlq ls` shows why, `rota dlq redrive` runs them again",
            )
        )
    )
