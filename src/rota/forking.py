"""Prefork servers: what becomes of what a process has open when it forks.

A child shares its parent's sockets and files, but has none of its threads. Whatever it wrote to a connection would land
in the middle of the parent's talk, and what it waited for on one of the parent's threads would never come. So a child
starts as if it had never connected: whoever is `Forgetful` forgets in the child what the parent has open, and connects
anew when it is next used. Nothing that is forgotten is closed, or even let go of: closing would say goodbye in the
parent's name, and take the parent's sockets out of what its event loop waits for.

SQLite needs more than that. It keeps its locks by process and file, so a child that inherits an open connection takes
itself for the holder of locks that it has not: the parent's last close would then remove the very log that the child
writes to, with all that the child had acknowledged. So no file is open at the moment of a fork (`ClosedForForks`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from rota.errors import RotaError

__all__ = ["ClosedForForks", "Forgetful", "forget_in_children", "keep_for_ever", "refuse_inherited"]

PATIENCE = 5.0
"""Seconds that a fork waits for the calls that are under way."""


class Forgetful(Protocol):
    """Somebody who has things open that a child must not touch."""

    def forget_parent(self) -> None:
        """In a child, before anything else runs in it: everything that the parent has open is none of ours."""
        ...


class ClosedForForks:
    """Calls `close` before every fork, while nobody has a turn: whoever comes after it opens again."""

    def __init__(self, file: Path, close: Callable[[], None], *turns: threading.Lock) -> None:
        self._file = file.absolute()
        self._close = close
        self._turns = turns
        self._taken: list[threading.Lock] = []
        _closing.add(self)

    def before_fork(self) -> None:
        self._taken = [turn for turn in self._turns if turn.acquire(timeout=PATIENCE)]
        if len(self._taken) == len(self._turns):
            self._close()

    def after_fork(self, *, in_child: bool) -> None:
        if in_child and len(self._taken) < len(self._turns):
            _inherited_open.add(self._file)
        for turn in self._taken:
            turn.release()


_known: WeakSet[Forgetful] = WeakSet()
_closing: WeakSet[ClosedForForks] = WeakSet()
_forgotten: list[object] = []
_one_fork_at_a_time = threading.RLock()
_closed: list[ClosedForForks] = []
_inherited_open: set[Path] = set()


def forget_in_children(somebody: Forgetful) -> None:
    """From now on, until it is gone, it is told in every child."""
    _known.add(somebody)


def keep_for_ever(*forgotten: object) -> None:
    """What nobody uses any more and nobody may close: its destructor must not run in this process."""
    _forgotten.extend(forgotten)


def refuse_inherited(file: Path) -> None:
    """Say what to do in a child into which this file came open, because a call under way did not end in time."""
    if file.absolute() in _inherited_open:
        raise RotaError(
            f"This process was forked while a call to {file} was under way that did not end within {PATIENCE:g} s, and"
            " SQLite bears no second connection beside an inherited one. Fork again, or before the app connects."
        )


def _before() -> None:
    _one_fork_at_a_time.acquire()
    _closed[:] = _closing
    for one in _closed:
        one.before_fork()


def _after(*, in_child: bool) -> None:
    for one in _closed:
        one.after_fork(in_child=in_child)
    _closed.clear()
    _one_fork_at_a_time.release()


def _in_the_child() -> None:
    _after(in_child=True)
    for somebody in list(_known):
        somebody.forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=lambda: _after(in_child=False), after_in_child=_in_the_child)
