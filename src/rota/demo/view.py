"""How `rota demo` is watched: a live picture on a terminal, plain lines elsewhere, nothing with `--json`."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from rota.clock import Instant, isoformat
from rota.core.task import RunRecord
from rota.keys import shown_key
from rota.printable import printable
from rota.stores.base import Counts, Instance

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

__all__ = ["DemoSnapshot", "DemoView", "Lines", "LivePicture", "Silence"]

_STYLES: Final[Mapping[str, str]] = {"success": "green", "error": "red", "lost": "bold red"}


@dataclass(frozen=True)
class DemoSnapshot:
    """What the store says at one moment."""

    counts: Mapping[str, Counts] = field(default_factory=dict[str, Counts])
    instances: Sequence[Instance] = ()
    runs: Sequence[RunRecord] = ()
    now: Instant = 0


class DemoView(Protocol):
    """What the story is told to."""

    wants_pictures: bool

    def watching(self) -> AbstractContextManager[object]:
        """The time during which the story is told."""
        ...

    def say(self, sentence: str) -> None:
        """What is happening now."""
        ...

    def show(self, snapshot: DemoSnapshot) -> None:
        """What the store says now."""
        ...


class Silence:
    """For programs: they read the summary."""

    wants_pictures = False

    def watching(self) -> AbstractContextManager[object]:
        return nullcontext()

    def say(self, sentence: str) -> None:
        """Nothing is said."""

    def show(self, snapshot: DemoSnapshot) -> None:
        """Nothing is shown."""


class Lines(Silence):
    """For pipes and logs: one line for each thing that happens."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def say(self, sentence: str) -> None:
        sys.stdout.write(f"{time.monotonic() - self._started:5.1f} s  {printable(sentence)}\n")
        sys.stdout.flush()


class LivePicture:
    """For terminals: the sentence of the moment above the types, the workers and the latest runs."""

    wants_pictures = True

    def __init__(self) -> None:
        from rich.live import Live

        self._started = time.monotonic()
        self._sentences: deque[tuple[float, str]] = deque(maxlen=6)
        self._snapshot = DemoSnapshot()
        self._live: Live = Live(self.picture(), refresh_per_second=8)

    def watching(self) -> AbstractContextManager[object]:
        return self._live

    def say(self, sentence: str) -> None:
        self._sentences.append((time.monotonic() - self._started, printable(sentence)))
        self._live.update(self.picture())

    def show(self, snapshot: DemoSnapshot) -> None:
        self._snapshot = snapshot
        self._live.update(self.picture())

    def picture(self) -> RenderableType:
        """What the terminal shows."""
        from rich.columns import Columns
        from rich.console import Group
        from rich.panel import Panel

        side_by_side = Columns([self._types(), self._workers()], padding=(0, 3))
        return Panel(Group(self._story(), side_by_side, "", self._runs()), title="rota demo", border_style="cyan")

    def _story(self) -> RenderableType:
        from rich.text import Text

        text = Text()
        for index, (at, sentence) in enumerate(self._sentences):
            newest = index == len(self._sentences) - 1
            text.append(f"{at:5.1f} s  {sentence}\n", style="bold" if newest else "dim")
        return text

    def _types(self) -> RenderableType:
        rows = [
            (name, str(of.pending), str(of.running), str(of.succeeded_total), str(of.coalesced_total), str(of.failed))
            for name, of in sorted(self._snapshot.counts.items())
        ]
        return _table(("TASKS", "pending", "running", "done", "coalesced", "dead"), rows)

    def _workers(self) -> RenderableType:
        now = self._snapshot.now
        rows = [
            (str(each.beat.pid), str(each.beat.running), "alive" if each.seen_at + 2_000 > now else "silent")
            for each in self._snapshot.instances
        ]
        return _table(("WORKER (pid)", "running", "state"), rows)

    def _runs(self) -> RenderableType:
        rows = [
            ((isoformat(run.started_at) or "")[11:19], run.task_type, shown_key(run.key), run.status.value)
            for run in self._snapshot.runs
        ]
        return _table(("LATEST RUNS", "type", "key", "outcome"), rows)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold cyan", padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(*(Text(printable(cell), style=_STYLES.get(cell, "")) for cell in row))
    return table
