"""Who wants to know what an instance does: metrics, history and traces all listen here, in one way.

An observer is called on the event loop, between two steps of a run, so it must be quick and must not raise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from rota.clock import Instant
from rota.core.outcome import TouchOutcome
from rota.core.task import Task
from rota.runtime.running import Running
from rota.runtime.verdict import Verdict

__all__ = ["Observer", "Producer"]


class Producer(Protocol):
    """Stands around the calls that make work."""

    def making(self, verb: str, task_type: str) -> AbstractContextManager[Callable[[str], None]]:
        """Around one call (touch, schedule); the block hands in what it led to."""
        ...


class Observer(Protocol):
    """What can be seen of an instance at work."""

    def run_started(self, running: Running) -> None:
        """A handler is about to be called, in the context that it will run in."""

    def run_ended(self, running: Running, verdict: Verdict | None, landed: bool) -> None:
        """A run is over: how (None if it was taken over), and whether the store took that."""

    def write_refused(self, task: Task) -> None:
        """A run's end was refused, because its token is no longer the current one."""

    def reaped(self, task: Task, now: Instant) -> None:
        """A dead instance's task was taken back by this one, at the store's time."""

    def claimed(self, count: int) -> None:
        """A claim has brought so many tasks."""

    def touched(self, task_type: str, outcome: TouchOutcome) -> None:
        """A user's activity has led to this."""
