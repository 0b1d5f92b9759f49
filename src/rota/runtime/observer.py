"""Who wants to know what an instance does: metrics, history and traces all listen here, in one way.

An observer is called on the event loop, between two steps of a run, so it must be quick. One that raises harms nobody:
it stands behind a guard, and its first error of each kind is logged.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from rota.clock import Instant
from rota.core.task import Task
from rota.logs import get_logger
from rota.runtime.running import Running
from rota.runtime.verdict import Verdict

__all__ = ["Guarded", "Making", "Observer", "Producer"]

log = get_logger("rota.runtime")


class Making(Protocol):
    """One call that makes work."""

    @property
    def trace(self) -> str | None:
        """The context of the call, as a `traceparent`: it stays with what is made, so that its runs can be linked."""
        ...

    def led_to(self, outcome: str) -> None:
        """What the call has led to."""


class Producer(Protocol):
    """Stands around the calls that make work."""

    def making(self, verb: str, task_type: str) -> AbstractContextManager[Making]:
        """Around one call (touch, schedule)."""
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


class Guarded:
    """An `Observer` around one that may raise: a run is never lost because somebody wanted to know of it."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._known: set[tuple[str, type[BaseException]]] = set()

    def run_started(self, running: Running) -> None:
        self._tell("run_started", running)

    def run_ended(self, running: Running, verdict: Verdict | None, landed: bool) -> None:
        self._tell("run_ended", running, verdict, landed)

    def write_refused(self, task: Task) -> None:
        self._tell("write_refused", task)

    def reaped(self, task: Task, now: Instant) -> None:
        self._tell("reaped", task, now)

    def claimed(self, count: int) -> None:
        self._tell("claimed", count)

    def _tell(self, told: str, *what: object) -> None:
        try:
            getattr(self._observer, told)(*what)
        except BaseException as error:  # it may have looked at what a handler raised, which may raise anything
            self._failed(told, error)

    def _failed(self, told: str, error: BaseException) -> None:
        """It will fail alike at the next run, and the next: once is enough to know."""
        if (told, type(error)) in self._known:
            return
        self._known.add((told, type(error)))
        log.error("observer failed", observer=type(self._observer).__name__, told=told, exc_info=error)
