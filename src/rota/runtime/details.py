"""What one run leaves while it runs: gathered here line by line, and written down by whoever asks.

A handler may log from any thread, so what is added is one append each; what has been gathered is read on the loop.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Final, Generic, TypeVar

from msgspec.structs import replace

from rota.clock import Clock, Millis
from rota.core.run_details import NO_DETAILS, Line, Progress, RunDetails, Step, encode_details
from rota.masking import masker
from rota.runtime.capture import LineBuffer
from rota.stores.base import MAX_DETAILS_BYTES

__all__ = ["MAX_LINE", "Details", "as_kept", "fitting"]

T = TypeVar("T")

MAX_LINE: Final = 1_000
"""Characters of a line that are kept."""
MAX_STEPS: Final = 100
_FIRST_LINES, _LAST_LINES = 50, 150
_FIRST_PROGRESS, _LAST_PROGRESS = 10, 30


def as_kept(text: str, most: int) -> str:
    """A text as a store can keep it, and as people may read it: secrets hidden, not too long, no NUL."""
    text = masker().text(text[: 2 * most])
    text = text if len(text) <= most else text[: most - 1] + "…"
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class _Ends(Generic[T]):
    """The first and the last of many."""

    def __init__(self, first: int, last: int) -> None:
        self.added = 0
        self._most = first
        self._first: list[T] = []
        self._last: deque[T] = deque(maxlen=last)

    def add(self, item: T) -> None:
        if len(self._first) < self._most:
            self._first.append(item)
        else:
            self._last.append(item)
        self.added += 1

    def kept(self) -> tuple[T, ...]:
        return (*self._first, *tuple(self._last))


class Details:
    """What a run has left so far. It is made when there is something to keep."""

    def __init__(self, clock: Clock, started: float) -> None:
        self._clock = clock
        self._started = started
        self._lines = _Ends[Line](_FIRST_LINES, _LAST_LINES)
        self._progress = _Ends[Progress](_FIRST_PROGRESS, _LAST_PROGRESS)
        self._steps: list[Step] = []
        self._written_so_far: dict[str, LineBuffer] = {}
        """What was printed and is no whole line yet, by its stream."""
        self._written = 0
        """How much there was when it was last written."""
        self._changes = 0

    def line(self, text: str, level: str, logger: str = "") -> None:
        """Keep one line that was logged or printed."""
        self.add_line(Line(self._at(), as_kept(text, MAX_LINE), level, logger[:100]))

    def add_line(self, line: Line) -> None:
        self._lines.add(line)
        self._changes += 1

    def write(self, text: str, level: str) -> None:
        """Keep what was printed, piece by piece."""
        for line in self._written_so_far.setdefault(level, LineBuffer()).add(text):
            self.line(line, level)

    def progress(self, value: str) -> None:
        """Keep one report, as JSON."""
        self._progress.add(Progress(self._at(), as_kept(value, MAX_LINE)))
        self._changes += 1

    @contextmanager
    def step(self, name: str) -> Generator[None]:
        """A named part of the run, from here to the end of the block."""
        place = self.begin_step(name)
        try:
            yield
        except BaseException as error:
            self.end_step(place, type(error).__name__)
            raise
        self.end_step(place, None)

    def begin_step(self, name: str) -> int | None:
        """Where the step stands; None if there are too many already."""
        if len(self._steps) >= MAX_STEPS:
            return None
        self._steps.append(Step(as_kept(name, 100), self._at()))
        self._changes += 1
        return len(self._steps) - 1

    def end_step(self, place: int | None, error: str | None) -> None:
        if place is not None and place < len(self._steps):
            self._steps[place] = replace(self._steps[place], to_ms=self._at(), error=error)
            self._changes += 1

    def put_step(self, place: int, step: Step) -> None:
        """A step as another process has it: a new one, or one that was there."""
        if place < len(self._steps):
            self._steps[place] = step
        elif place < MAX_STEPS:
            self._steps.append(step)
        self._changes += 1

    def gathered(self) -> RunDetails:
        """All of it."""
        lines, progress = self._lines.kept(), self._progress.kept()
        rest = [
            Line(self._at(), as_kept(buffer.rest, MAX_LINE), level)
            for level, buffer in self._written_so_far.items()
            if buffer.rest.strip()
        ]
        return RunDetails(
            lines=(*lines, *rest),
            lines_left_out=max(0, self._lines.added - len(lines)),
            progress=progress,
            progress_left_out=max(0, self._progress.added - len(progress)),
            steps=tuple(self._steps),
        )

    @property
    def has_news(self) -> bool:
        """Whether anything came since it was last written."""
        return self._changes != self._written

    def note_written(self, at: int) -> None:
        self._written = at

    @property
    def changes(self) -> int:
        return self._changes

    def _at(self) -> Millis:
        return max(0, round((self._clock.monotonic() - self._started) * 1_000))


@cache
def _host() -> str:
    return as_kept(socket.gethostname(), 100)


def fitting(details: RunDetails, waited_ms: Millis) -> str | None:
    """As it is kept, however much of it that is; None if there is nothing to keep."""
    if details == NO_DETAILS:
        return None
    details = replace(details, host=_host(), pid=os.getpid(), waited_ms=waited_ms)
    text = encode_details(details)
    while len(text.encode()) > MAX_DETAILS_BYTES:
        details = _less(details)
        text = encode_details(details)
    return text


def _less(details: RunDetails) -> RunDetails:
    """Half of what takes the most room: the last lines say most."""
    if len(details.lines) > 1:
        kept = details.lines[len(details.lines) // 2 :]
        left_out = details.lines_left_out + len(details.lines) - len(kept)
        return replace(details, lines=kept, lines_left_out=left_out)
    if details.progress:
        return replace(details, progress=(), progress_left_out=details.progress_left_out + len(details.progress))
    if details.payload is not None:
        return replace(details, payload=None)
    return replace(details, lines=(), steps=(), traceback=(details.traceback or "")[-2_000:])
