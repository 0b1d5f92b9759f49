"""Several processes write to one SQLite file: each in its turn.

SQLite lets in whoever asks at the right moment. Whoever waits asks again after pauses that grow to a tenth of a second;
whoever has just written asks at once, so one process keeps the file and the others get nothing. Here whoever wants to
write stands in line first. The place at its head is a lock of the system (`flock`) on the file's log; who has it asks
for the file again and again, and gives the place up when it has the file. Who has just written finds the place taken.

It is courtesy and no guard: SQLite's own lock decides who writes. So whoever finds the place held for too long, by a
process that is frozen, or where there is no such lock, goes straight to the file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rota.clock import SystemClock

try:
    import fcntl
except ImportError:  # pragma: no cover  # Windows has no flock
    fcntl = None

__all__ = ["Line"]

PAUSE: Final = 0.0005
"""Seconds between two looks whether the place, or the file, is free."""
PATIENCE: Final = 0.25
"""Seconds that a place is waited for: far longer than a transaction takes."""
RUDE: Final = 5.0
"""Seconds for which nobody is waited for after one that did not move."""


class Line:
    """The line in front of one file, as one process sees it. One thread at a time uses it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._place: int | None = None
        self._elapsed = SystemClock().monotonic
        self._rude_until = 0.0

    @contextmanager
    def at_its_head(self) -> Generator[None]:
        """Stand in line until it is our turn, and be next until the block ends."""
        place = self._open() if fcntl is not None and self._elapsed() >= self._rude_until else None
        if place is None or not self._take(place):
            yield
            return
        try:
            yield
        finally:
            _give_up(place)

    def _take(self, place: int) -> bool:
        is_taken = self.ask(lambda: _try(place), PATIENCE)
        if not is_taken:
            self._rude_until = self._elapsed() + RUDE
        return is_taken

    def ask(self, is_ours: Callable[[], bool], seconds: float) -> bool:
        """Ask again and again, for so long."""
        if is_ours():
            return True
        until = self._elapsed() + seconds
        while self._elapsed() < until:
            time.sleep(PAUSE)
            if is_ours():
                return True
        return False

    def _open(self) -> int | None:
        """The log as it is there now: the last one to close the file removes it, and the next one makes another."""
        if self._place is not None and os.fstat(self._place).st_nlink == 0:
            self.close()
        if self._place is None:
            with suppress(OSError):  # there is none before the first write
                self._place = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
        return self._place

    def close(self) -> None:
        if self._place is not None:
            os.close(self._place)
            self._place = None


def _try(place: int) -> bool:
    assert fcntl is not None
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _give_up(place: int) -> None:
    assert fcntl is not None
    fcntl.flock(place, fcntl.LOCK_UN)
