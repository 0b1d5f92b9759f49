"""How a batch is watched: items above a bar on a terminal, plain lines elsewhere, a line of JSON an event for programs.

Items are the answer, so they go to stdout; whatever is said beside them goes to stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import msgspec

from rota.batches.batch import Batch
from rota.batches.rows import BatchEvent
from rota.cli.output import Output
from rota.clock import MINUTE, SECOND, Millis, format_duration, isoformat
from rota.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.status import Status

__all__ = ["Countdown", "FollowView", "JsonLines", "Lines", "LiveBar", "description_of", "short_span", "view_for"]

_NAME_WIDTH: Final = 26
"""Descriptions begin below each other, unless a name is longer than this."""


class FollowView(Protocol):
    """What is told to whoever follows a batch."""

    def watching(self) -> AbstractContextManager[object]:
        """The time during which it is followed."""
        ...

    def tell(self, event: BatchEvent) -> None:
        """What has happened."""
        ...

    def remark(self, sentence: str) -> None:
        """Why nothing happens."""
        ...


def view_for(output: Output, batch: Batch) -> FollowView:
    """The view that suits whoever reads it."""
    if output.as_json:
        return JsonLines()
    if output.on_terminal:
        console = _console()
        # A terminal that cannot move its cursor has lines, as a file would.
        if not console.is_dumb_terminal:
            return LiveBar(batch, console)
    return Lines(output)


def short_span(span: Millis) -> str:
    """How long something took, as exactly as a person wants to know."""
    return f"{span / SECOND:.1f} s" if span < MINUTE else format_duration(round(span / SECOND) * SECOND)


def description_of(fields: Mapping[str, object]) -> str:
    """What is known of an item beside its name: its description, or else all there is."""
    said = fields.get("description")
    return str(said) if said else "; ".join(f"{name}: {value}" for name, value in fields.items())


class JsonLines:
    """For programs: one line an event, as it comes."""

    def watching(self) -> AbstractContextManager[object]:
        return nullcontext()

    def tell(self, event: BatchEvent) -> None:
        self._write({"number": event.number, "event": event.event, "data": _data(event), "at": isoformat(event.at)})

    def remark(self, sentence: str) -> None:
        # It is no event of the batch, so it has no number to go on from.
        message = sentence.replace("\n", " ")
        self._write({"number": None, "event": "waiting", "data": {"message": message}, "at": None})

    def _write(self, line: Mapping[str, object]) -> None:
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
        # Whoever waits for the first items reads them from a pipe.
        sys.stdout.flush()


class Lines:
    """For pipes and logs: the items, one a line."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def watching(self) -> AbstractContextManager[object]:
        return nullcontext()

    def tell(self, event: BatchEvent) -> None:
        match event.event:
            case "item":
                name, description = _words(event)
                sys.stdout.write(f"{name}  {description}".rstrip() + "\n")
                sys.stdout.flush()
            case "first_response":
                self._output.note(f"The first response took {short_span(int(_data(event)['ms']))}.")
            case _:
                pass

    def remark(self, sentence: str) -> None:
        self._output.note(sentence)


class LiveBar:
    """For terminals: the items as they come, above a bar that says how far it is."""

    def __init__(self, batch: Batch, console: Console) -> None:
        self._console = console
        self._items, self._count = 0, batch.count
        self._first, self._subtasks = "", f"0 of {batch.expected} subtasks"
        self._progress = _progress(console)
        self._bar = self._progress.add_task("", total=batch.count, words=self._sentence())

    def watching(self) -> AbstractContextManager[object]:
        return self._progress

    def tell(self, event: BatchEvent) -> None:
        data = _data(event)
        match event.event:
            case "item":
                self._print_item(event)
            case "first_response":
                self._first = f", the first after {short_span(int(data['ms']))}"
            case "progress":
                failed = f" ({data['failed']} failed)" if data["failed"] else ""
                self._items = int(data["items"])
                self._subtasks = f"{data['done']} of {data['subtasks']} subtasks{failed}"
            case _:
                return
        self._progress.update(self._bar, completed=self._items, words=self._sentence())

    def remark(self, sentence: str) -> None:
        from rich.text import Text

        self._console.print(Text(sentence, style="yellow"), soft_wrap=True)

    def _sentence(self) -> str:
        return f"{self._items} of {self._count}{self._first}; {self._subtasks}"

    def _print_item(self, event: BatchEvent) -> None:
        from rich.text import Text

        name, description = _words(event)
        line = Text(name)
        line.pad_right(max(0, _NAME_WIDTH - line.cell_len))
        line.append(f"  {description}", style="dim")
        line.rstrip()
        # One line each: what has no room here is in `rota batch items`.
        self._console.print(line, no_wrap=True, overflow="ellipsis")


class Countdown:
    """How many batches are still open: a line that changes on a terminal, a line for each number elsewhere."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._said = -1
        self._status: Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, left: int) -> None:
        if left == self._said:
            return
        self._said = left
        words = f"{left:,} to go"
        if self._output.as_json or not self._output.on_terminal:
            self._output.note(f"{words}.")
        elif self._status is None:
            self._status = _console().status(words)
            self._status.start()
        else:
            self._status.update(words)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _progress(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        BarColumn(bar_width=None),
        TextColumn("{task.fields[words]}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        expand=True,
    )


def _data(event: BatchEvent) -> dict[str, Any]:
    return msgspec.json.decode(event.data)


def _words(event: BatchEvent) -> tuple[str, str]:
    """The name of an item, and what else is known of it."""
    fields = {name: value for name, value in _data(event).items() if name != "number"}
    return printable(str(fields.pop("name"))), printable(description_of(fields))
