"""How a run is made to stop: it is told to, then cancelled, and given up on if that does not end it within a grace.

A handler may swallow its cancellation, and a thread cannot be cancelled at all. What is given up on is settled without
its handler, and its slot is free again. It counts as abandoned until its handler ends, and as long as that takes this
instance claims nothing of its identity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from rota.core.task import Identity
from rota.runtime.deadlines import Deadlines
from rota.runtime.run_log import RunLog
from rota.runtime.running import Running
from rota.runtime.verdict import StopCause

__all__ = ["Stopping"]


class Stopping:
    """The stops of one instance's runs. `settle` is told of a run that is given up on."""

    def __init__(
        self, runs: Collection[Running], settle: Callable[[Running], None], *, grace: float, log: RunLog
    ) -> None:
        self.grace = grace
        self.deadlines = Deadlines(runs, self._overdue)
        self.abandoned: set[Running] = set()
        """Handlers that were given up on and still run."""
        self.abandoned_total = 0
        self.on_free: Callable[[], None] = _nothing
        """Told when one of them has ended after all."""
        self._settle = settle
        self._log = log

    @property
    def excluded(self) -> frozenset[Identity]:
        """What must not be claimed here: a handler that was given up on may still be at work on it."""
        return frozenset(running.task.identity for running in self.abandoned)

    def stop(self, running: Running, cause: StopCause) -> None:
        """Tell a run to stop; on the event loop's own thread."""
        if running.tell_to_stop(cause):
            self.interrupt(running)

    def interrupt(self, running: Running) -> None:
        """Make a run stop that was told to: cancel it, and give up on it if it does not end within the grace."""
        if running.settling or running.interrupted:
            return
        running.interrupted = True
        self.deadlines.set(running, self.grace)
        # A thread cannot be interrupted; it can see `run.cancelled`.
        is_in_thread = running.handler is not None and running.handler.kind == "thread"
        if running.entered and running.job is not None and not is_in_thread:
            running.job.cancel()

    def abandon(self, running: Running) -> None:
        """Give up on a handler that does not stop: settle its run without it."""
        if running.settling or running.is_abandoned:
            return
        assert running.cause is not None, "only a run that was told to stop is given up on"
        running.is_abandoned = True
        self.abandoned.add(running)
        self.abandoned_total += 1
        self._log.abandoned(running)
        self._settle(running)

    def forget(self, running: Running) -> None:
        """A handler that was given up on has ended after all."""
        self.abandoned.discard(running)
        self._log.ended_after_all(running.task)
        self.on_free()

    def _overdue(self, running: Running) -> None:
        if running.interrupted:
            self.abandon(running)
        else:
            self.stop(running, StopCause.TIMEOUT)


def _nothing() -> None:
    """Nobody wants to know."""
