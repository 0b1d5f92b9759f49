"""One run, as a sentence: open, resolve the handler, run it until its deadline, classify its answer, hand it over.

Each run is one asyncio task, owned by the executor and not by the worker's task group: a task group waits for its
children for ever, and a handler may swallow its cancellation (`stopping.py`).

Why a run had to stop decides how it is settled: `verdict.py` says how, and `settler.py` brings it to the store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rota.clock import SECOND, Clock, Millis
from rota.core.task import Task, Transition
from rota.core.task_type import TaskType
from rota.runtime import capture
from rota.runtime.calling import call_handler
from rota.runtime.handler import Handler
from rota.runtime.health import Pulse
from rota.runtime.lease import safe_seconds
from rota.runtime.observer import Observer
from rota.runtime.run_log import RunLog
from rota.runtime.running import Running
from rota.runtime.settler import Settler
from rota.runtime.stopping import Stopping
from rota.runtime.threads import Threads
from rota.runtime.verdict import StopCause, Verdict, after_stop
from rota.stores.base import Store

__all__ = ["GRACE_SECONDS", "Executor", "OnSettled"]

GRACE_SECONDS = 5.0
"""How long a handler that was told to stop has to clean up, before it is given up on."""

OnSettled = Callable[[Sequence[Running]], None]
"""Told about runs that are over, many at a time: `verdict` says how, `landed` whether the store took that."""

_NO_TYPE = TaskType(name="unknown")


class Executor:
    """The runs of one instance."""

    def __init__(
        self,
        store: Store,
        handlers: Mapping[str, Handler],
        types: Mapping[str, TaskType],
        *,
        clock: Clock,
        chance: Callable[[], float],
        pulse: Pulse,
        lease_ms: Millis = 10 * SECOND,
        grace: float = GRACE_SECONDS,
        observers: tuple[Observer, ...] = (),
    ) -> None:
        self.running: set[Running] = set()
        """From the claim until the end is settled."""
        self.per_type: Counter[str] = Counter()
        self.runs_total = 0
        self.on_settled: OnSettled = _ignore
        self.observers = observers
        self._handlers = handlers
        self._types = types
        self._clock = clock
        self._safe_for = safe_seconds(lease_ms)
        self._threads = Threads()
        self._log = log = RunLog(types)
        self.stopping = Stopping(self.running, lambda running: self._end(running, None), grace=grace, log=log)
        """How runs are made to stop, and those that do not."""
        self._settler = Settler(store, self._close, self._refused, chance=chance, pulse=pulse, log=log)
        self._closed_one = asyncio.Event()

    # --- from outside ---

    def start(self, task: Task, held_since: float) -> Running:
        """Run a task that was claimed by a call sent at `held_since` (monotonic seconds)."""
        timeout_ms = self._types.get(task.task_type, _NO_TYPE).timeout_ms
        running = self._open(Running(task, self._handlers.get(task.task_type), timeout_ms, held_since, self._clock))
        if running.handler is None:
            self._end(running, Verdict(Transition.RELEASE))
        else:
            self.stopping.deadlines.set(running, timeout_ms / 1_000)
            running.job = asyncio.get_running_loop().create_task(self._run(running, running.handler))
        self._log.claimed(task)
        return running

    def put_back(self, task: Task, held_since: float, why: str) -> None:
        """Release a task that was claimed and is not begun here; it holds its slot until the store has taken that."""
        self._end(self._open(Running(task, None, 0, held_since, self._clock)), Verdict(Transition.RELEASE, error=why))

    def stop_all(self, cause: StopCause) -> None:
        """Tell every run to stop."""
        for running in list(self.running):
            self.stopping.stop(running, cause)

    def give_up(self) -> None:
        """Wait no longer: one last try to release what still runs, none for what the store did not take so far."""
        self._settler.give_up()
        for running in list(self.running):
            if not running.settling:
                self.stopping.stop(running, StopCause.SHUTDOWN)
                self.stopping.abandon(running)

    async def drain(self) -> None:
        """Until every run is settled or given up on. Bounded by whoever stops them."""
        while self.running:
            self._closed_one.clear()
            await self._closed_one.wait()

    def close(self) -> None:
        """Let the idle threads and the timer go."""
        self._threads.close()
        self.stopping.deadlines.close()

    # --- one run ---

    def _open(self, running: Running) -> Running:
        self.running.add(running)
        self.per_type[running.task.task_type] += 1
        return running

    async def _run(self, running: Running, handler: Handler) -> None:
        """Call the handler, and hand over how it ended."""
        running.started = self._clock.monotonic()
        if running.started - running.held_since > self._safe_for and running.tell_to_stop(StopCause.LATE):
            # The loop was blocked, or the whole process frozen, since the claim was sent.
            self._end(running, None)
            return
        running.entered = True
        capture.entered(running)
        for observer in self.observers:
            observer.run_started(running)
        verdict = None if running.cause is not None else await call_handler(running, handler, self._threads)
        if running.is_abandoned:
            self.stopping.forget(running)
        else:
            self._end(running, verdict)

    def _end(self, running: Running, verdict: Verdict | None) -> None:
        """The handler is over, like this (None: by its cancellation); the settler has the rest."""
        if running.cause is not None:
            verdict = after_stop(verdict, running.cause, running.timeout_ms)
        running.begin_settling(verdict, self._clock.monotonic())
        if verdict is None:
            self._log.lost(running.task)
            self._close([running])
        else:
            self._settler.settle(running, verdict)

    def _refused(self, running: Running) -> None:
        self._log.lost(running.task)
        for observer in self.observers:
            observer.write_refused(running.task)

    def _close(self, ended: Sequence[Running]) -> None:
        """Free the slots of runs that are over, and tell whoever wants to know."""
        for running in ended:
            self.running.discard(running)
            self.per_type[running.task.task_type] -= 1
            self.runs_total += running.handler is not None
        self._closed_one.set()
        for observer in self.observers:
            for running in ended:
                observer.run_ended(running, running.verdict, running.landed)
        self.on_settled(ended)


def _ignore(ended: Sequence[Running]) -> None:
    """Nobody wants to know."""
