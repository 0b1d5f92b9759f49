"""What a command prints: tables and sentences for people, JSON for programs; answers on stdout, the rest on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from rota.cli.table import NOTHING, Column, View, chosen, print_plain, print_table, print_wide
from rota.clock import Instant, Millis, SystemClock, format_duration, isoformat
from rota.printable import printable, printable_lines

__all__ = ["Column", "Output", "View", "relative", "write_json"]


def write_json(value: object, stream: IO[str]) -> None:
    """One value, readable by people too."""
    stream.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def relative(at: Instant, now: Instant) -> str:
    """How far away an instant is: "in 29m", "12s ago"."""
    span = _rounded(abs(at - now))
    if span == 0:
        return "now"
    return f"in {format_duration(span)}" if at > now else f"{format_duration(span)} ago"


def _rounded(span: Millis) -> Millis:
    # Two units are enough for a person: nobody reads the milliseconds of something due in three days.
    for size, grain in ((86_400_000, 3_600_000), (3_600_000, 60_000), (0, 1_000)):
        if span >= size:
            return round(span / grain) * grain
    return span


class Output:
    """Where a command's words go. With `as_json` only JSON reaches stdout. A command that lists has a `view`."""

    def __init__(self, *, as_json: bool, view: View | None = None) -> None:
        self.as_json = as_json
        self.view = view
        self.on_terminal = sys.stdout.isatty()

    def one(self, value: Mapping[str, object], sentence: str | None = None) -> None:
        """One object: as JSON, as a sentence if there is one, else as a list of its values."""
        if self.as_json:
            write_json(value, sys.stdout)
        elif sentence is not None:
            self.say(sentence)
        else:
            self._facts(value)

    def page(
        self,
        items: Sequence[Mapping[str, object]],
        columns: Sequence[Column],
        *,
        cursor: str | None = None,
        empty: str,
        **more: object,
    ) -> None:
        """A list: as `{"items", "cursor"}` or as a table. `empty` says what to do when there is nothing to show."""
        columns = chosen(columns, self.view)
        if self.as_json:
            write_json({"items": items, "cursor": cursor, **more}, sys.stdout)
        elif not items:
            self.note(empty)
        else:
            self._table(items, columns)
            if cursor is not None:
                self.note(f"There is more: add --cursor '{cursor}'.")

    def say(self, sentence: str) -> None:
        """An answer for people."""
        if not self.as_json:
            sys.stdout.write(printable_lines(sentence) + "\n")

    def note(self, sentence: str) -> None:
        """A remark for people that is not the answer."""
        if not self.as_json:
            sys.stdout.flush()
            sys.stderr.write(printable_lines(sentence) + "\n")

    def alarm(self, sentence: str) -> None:
        """What nobody should overlook: as a note, in red where there are colours."""
        if not self.as_json:
            has_colours = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
            red, plain = ("\x1b[1;31m", "\x1b[0m") if has_colours else ("", "")
            sys.stdout.flush()
            sys.stderr.write(f"{red}{printable_lines(sentence)}{plain}\n")

    def _facts(self, value: Mapping[str, object]) -> None:
        show = _for_people if self.on_terminal else _exact
        shown = {name: show(name, item) for name, item in value.items() if item is not None}
        width = max(map(len, shown), default=0)
        for name, text in shown.items():
            self.say(f"{name.ljust(width)}  {text}")

    def _table(self, items: Sequence[Mapping[str, object]], columns: Sequence[Column]) -> None:
        def rows(show: Callable[[str, object], str]) -> list[list[str]]:
            return [[show(column.name, item.get(column.name)) for column in columns] for item in items]

        if not self.on_terminal:
            print_plain([[column.heading for column in columns], *rows(_exact)])
        elif self.view is not None and self.view.is_wide:
            print_wide(columns, rows(_for_people))
        else:
            self._say_what_left(print_table(columns, rows(_for_people), rows(_in_short)))

    def _say_what_left(self, columns: Sequence[Column]) -> None:
        if columns and self.view is not None:
            names = ", ".join(column.choice for column in columns)
            self.note(f"No room for: {names}. --wide shows all, --columns a,b,c those that you name.")


def _exact(name: str, value: object) -> str:
    """A value as a program may read it."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping | list | tuple):
        return printable(json.dumps(value, ensure_ascii=False))
    return printable(str(value))


def _for_people(name: str, value: object) -> str:
    """The same, with an instant to the second and how far away it is."""
    at = _instant(name, value)
    if at is None:
        return _exact(name, value)
    return f"{isoformat(at - at % 1_000)} ({relative(at, SystemClock().now())})".replace(".000Z", "Z")


def _in_short(name: str, value: object) -> str:
    """The same where there is little room: only how far away an instant is."""
    at = _instant(name, value)
    return _exact(name, value) if at is None else relative(at, SystemClock().now())


def _instant(name: str, value: object) -> Instant | None:
    from datetime import datetime

    if not (name.endswith("_at") or name in ("at", "next_fire")) or not isinstance(value, str) or not value:
        return None
    return round(datetime.fromisoformat(value).timestamp() * 1_000)
