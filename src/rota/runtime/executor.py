"""One run, as a sentence: open, resolve the handler, run it under its timeout, classify its answer, settle.

Each run is one asyncio task, owned by the executor and not by the worker's task group: a task group waits for its
children for ever, and a handler may swallow its cancellation. Such a handler is given up on after a grace, its run is
settled without it, and its slot is free again. It is counted as abandoned, and this instance claims nothing of its
identity, until it ends.

Why a run had to stop decides how it is settled:

    timeout      retry, reason timeout, whatever the handler still returned
    cancelled    discard, reason cancelled (the store makes it `cancelled`)
    shutdown     release: unfinished work runs elsewhere, no retry is burned
    fenced       release: the lease could not be renewed, somebody else may own the task by now
    late         release: the claim was too old to begin with, and the handler was never called
    lost         nothing: somebody else does own it

After being told to stop, but not for its timeout or a lost lease, a handler that explicitly returns True, a text or a
dict is taken at its word: the work is done. A bare return is not that: it is what a handler does that looked at
`run.cancelled` and left.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from msgspec.structs import replace

from rota.clock import SECOND, Clock, Millis
from rota.core.outcome import Answer
from rota.core.task import Identity, Settlement, Task, Transition
from rota.core.task_type import TaskType
from rota.errors import StoreUnavailable
from rota.logs import get_logger
from rota.runtime.duty import back_off_seconds
from rota.runtime.handler import Handler
from rota.runtime.health import Pulse
from rota.runtime.lease import safe_seconds
from rota.runtime.observer import Observer
from rota.runtime.process import run_in_process
from rota.runtime.running import Running
from rota.runtime.signals import Signal
from rota.runtime.threads import Threads
from rota.runtime.verdict import StopCause, Verdict, of_error, of_stop, of_value
from rota.stores.base import Store

__all__ = ["GRACE_SECONDS", "Executor", "Settled"]

GRACE_SECONDS = 5.0
"""How long a handler that was told to stop has to clean up, before it is given up on."""

Settled = Callable[[Task, Transition, bool], None]
"""Told about every run that has ended: its task, how, and whether the store took it."""

_RELEASED = Verdict(Transition.RELEASE)
_FAILURES = frozenset({Transition.RETRY, Transition.FAIL})
_UNWRITABLE = (ValueError, TypeError)
"""They say that a text cannot be kept (`InvalidInput` is a ValueError): how the run ended can be, without its texts."""
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
        self.grace = grace
        self.running: set[Running] = set()
        self.abandoned: set[Running] = set()
        """Handlers that were given up on and still run."""
        self.per_type: Counter[str] = Counter()
        self.runs_total = 0
        self.abandoned_total = 0
        self.on_settled: Settled = _ignore
        self.on_free: Callable[[], None] = _nothing
        """Told when a handler that was given up on has ended after all."""
        self.observers = observers
        self._store = store
        self._handlers = handlers
        self._types = types
        self._clock = clock
        self._chance = chance
        self._pulse = pulse
        self._safe_for = safe_seconds(lease_ms)
        self._threads = Threads()
        self._has_given_up = False
        self._closed_one = asyncio.Event()
        self._log = get_logger("rota.executor")
        self._is_verbose = self._log.is_enabled_for(logging.DEBUG)

    # --- from outside ---

    def start(self, task: Task, held_since: float) -> Running:
        """Run a task that was claimed by a call sent at `held_since` (monotonic seconds)."""
        loop = asyncio.get_running_loop()
        timeout_ms = self._types.get(task.task_type, _NO_TYPE).timeout_ms
        running = Running(task, self._handlers.get(task.task_type), timeout_ms, held_since)
        self.running.add(running)
        self.per_type[task.task_type] += 1
        running.timer = loop.call_later(timeout_ms / 1_000, self.stop_run, running, StopCause.TIMEOUT)
        running.job = loop.create_task(self._run(running))
        if self._is_verbose:
            self._log.debug("claim", task_type=task.task_type, key=task.key, token=task.token, attempt=task.attempt)
        return running

    def put_back(self, task: Task, held_since: float, why: str) -> None:
        """Release a task that was claimed and is not begun here; it holds its slot until the store has taken that."""
        running = Running(task, None, 0, held_since)
        self.running.add(running)
        self.per_type[task.task_type] += 1
        running.job = asyncio.get_running_loop().create_task(
            self._finish(running, Verdict(Transition.RELEASE, error=why))
        )

    def stop_run(self, running: Running, cause: StopCause) -> None:
        """Tell one run to stop; on the event loop's own thread."""
        if running.tell_to_stop(cause):
            self.interrupt(running)

    def stop_all(self, cause: StopCause) -> None:
        """Tell every run to stop."""
        for running in list(self.running):
            self.stop_run(running, cause)

    def interrupt(self, running: Running) -> None:
        """Make a run stop that was told to: cancel it, and give up on it if it does not end within the grace."""
        if running.settling or running.interrupted:
            return
        running.interrupted = True
        if running.timer is not None:
            running.timer.cancel()
        running.timer = asyncio.get_running_loop().call_later(self.grace, self._abandon, running)
        # A thread cannot be interrupted; it can see `run.cancelled`.
        is_in_thread = running.handler is not None and running.handler.kind == "thread"
        if running.entered and running.job is not None and not is_in_thread:
            running.job.cancel()

    def give_up(self) -> None:
        """Wait no longer: one last try to release what still runs, none for what the store did not take so far."""
        self._has_given_up = True
        for running in list(self.running):
            if running.settling and running.job is not None:
                running.job.cancel()
            elif not running.settling:
                self.stop_run(running, StopCause.SHUTDOWN)
                self._abandon(running)

    async def drain(self) -> None:
        """Until every run is settled or given up on. Bounded by whoever stops them."""
        while self.running:
            self._closed_one.clear()
            await self._closed_one.wait()

    def close(self) -> None:
        """Let the idle threads go."""
        self._threads.close()

    @property
    def excluded(self) -> frozenset[Identity]:
        """What must not be claimed here: a handler that was given up on may still be at work on it."""
        if not self.abandoned:
            return frozenset()
        return frozenset(running.task.identity for running in self.abandoned)

    # --- one run ---

    async def _run(self, running: Running) -> None:
        verdict = await self._perform(running)
        if running.is_abandoned:
            self._forget(running)
            return
        await self._finish(running, verdict)

    async def _perform(self, running: Running) -> Verdict | None:
        """Call the handler and classify what it did."""
        if running.handler is None:
            return _RELEASED
        running.started = self._clock.monotonic()
        if running.started - running.held_since > self._safe_for and running.tell_to_stop(StopCause.LATE):
            # The loop was blocked, or the whole process frozen, since the claim was sent.
            return of_stop(StopCause.LATE, running.timeout_ms)
        running.entered = True
        for observer in self.observers:
            observer.run_started(running)
        verdict: Verdict | None = None
        if running.cause is None:
            try:
                verdict = await self._call(running, running.handler)
            except asyncio.CancelledError as error:
                verdict = self._cancelled(running, error)
            except BaseException as error:  # KeyboardInterrupt, a library's own: the run has ended, and is settled
                if _is_closed_from_outside(running, error):
                    raise
                verdict = of_error(error)
                running.error = error
        if running.cause is None:
            return verdict
        return _after_stop(verdict, running.cause) or of_stop(running.cause, running.timeout_ms)

    async def _call(self, running: Running, handler: Handler) -> Verdict:
        task, run = running.task, running.run
        if handler.kind == "async":
            return of_value(await cast("Awaitable[object]", handler.call(task, run)))
        if handler.kind == "thread":
            return of_value(await self._threads.run(lambda: handler.call(task, run)))
        return await run_in_process(handler, task, running.timeout_ms, running.report_progress)

    def _cancelled(self, running: Running, error: asyncio.CancelledError) -> Verdict | None:
        """None if it was told to stop; a handler that cancels itself has simply failed."""
        job = asyncio.current_task()
        assert job is not None
        is_ours = job.cancelling() > 0
        while job.cancelling() > 0:
            job.uncancel()
        if running.cause is None and is_ours:
            # Nobody here did that: the loop itself is ending.
            running.cause = StopCause.SHUTDOWN
        return None if is_ours else of_error(error)

    def _abandon(self, running: Running) -> None:
        """Give up on a handler that does not stop: settle its run without it."""
        if running.settling or running.is_abandoned or running.handler is None:
            return
        assert running.cause is not None, "only a run that was told to stop is given up on"
        running.is_abandoned = True
        running.left_behind = running.job
        self.abandoned.add(running)
        self.abandoned_total += 1
        verdict = of_stop(running.cause, running.timeout_ms)
        self._log.error(
            "handler abandoned",
            task_type=running.task.task_type,
            key=running.task.key,
            token=running.task.token,
            reason=running.cause.value,
            kind=running.handler.kind,
        )
        running.job = asyncio.get_running_loop().create_task(self._finish(running, verdict))

    def _forget(self, running: Running) -> None:
        """A handler that was given up on has ended after all."""
        self.abandoned.discard(running)
        self._log.info("abandoned handler ended", task_type=running.task.task_type, key=running.task.key)
        self.on_free()

    # --- settling ---

    async def _finish(self, running: Running, verdict: Verdict | None) -> None:
        """Settle the run, free its slot, and tell whoever wants to know."""
        running.begin_settling(self._clock.monotonic())
        landed = False
        try:
            if verdict is None:
                self._log_lost(running)
            else:
                landed = await self._settle(running, verdict)
        finally:
            self.running.discard(running)
            self.per_type[running.task.task_type] -= 1
            self.runs_total += running.handler is not None
            self._closed_one.set()
            for observer in self.observers:
                observer.run_ended(running, verdict, landed)
            self.on_settled(running.task, Transition.RELEASE if verdict is None else verdict.transition, landed)

    async def _settle(self, running: Running, verdict: Verdict) -> bool:
        """Write the end of the run, for as long as it takes: the token keeps a late one harmless, and only a stale one
        makes it worthless. Nobody but us knows how the run ended."""
        settlement = self._settlement(running, verdict)
        failures = 0
        while True:
            try:
                # The store's own deadline bounds it: a second one for each run would cost as much as the run.
                (reply,) = await self._store.settle([settlement])
            except Exception as error:
                failures += 1
                self._not_settled(running, error, failures)
                bare = replace(settlement, error=None, result=None)
                if isinstance(error, _UNWRITABLE) and settlement != bare:
                    settlement = bare
                    continue
                if self._has_given_up:
                    return False
                await asyncio.sleep(back_off_seconds(failures, self._chance()))
            else:
                break
        if failures:
            self._pulse.good("settling")
        if reply.answer not in (Answer.OK, Answer.ALREADY):
            self._refused(running)
            return False
        if settlement.transition in _FAILURES or self._is_verbose:
            self._log_settled(running, settlement, reply.task)
        return True

    def _not_settled(self, running: Running, error: Exception, failures: int) -> None:
        self._pulse.bad("settling", error)
        if failures & (failures - 1) == 0:
            # An outage of hours is worth a line now and then, not two a second for each run.
            known = {"task_type": running.task.task_type, "key": running.task.key, "token": running.task.token}
            raised = {} if isinstance(error, StoreUnavailable) else {"exc_info": error}
            self._log.warning("outcome waits", **known, failures=failures, error=str(error), **raised)

    def _settlement(self, running: Running, verdict: Verdict) -> Settlement:
        task = running.task
        running.took_ms = max(0, round((running.settling_since - running.started) * 1_000))
        return Settlement(
            task_type=task.task_type,
            key=task.key,
            token=task.token,
            transition=verdict.transition,
            duration_ms=running.took_ms,
            reason=verdict.reason,
            error=verdict.error,
            result=verdict.result,
            after_ms=verdict.after_ms,
            chance=self._chance(),
        )

    def _refused(self, running: Running) -> None:
        self._log_lost(running)
        for observer in self.observers:
            observer.write_refused(running.task)

    # --- logging ---

    def _log_lost(self, running: Running) -> None:
        task = running.task
        self._log.warning("lease lost", task_type=task.task_type, key=task.key, token=task.token, reason="lost")

    def _log_settled(self, running: Running, settlement: Settlement, then: Task | None) -> None:
        has_failed = settlement.transition in _FAILURES
        write, message = (self._log.warning, "run failed") if has_failed else (self._log.debug, "settle")
        known: dict[str, object] = {
            "task_type": settlement.task_type,
            "key": settlement.key,
            "token": settlement.token,
            "outcome": settlement.transition.value,
            # What was asked for is not what came of it: a retry with none left is a dead letter.
            **({} if then is None else {"status": then.status.value}),
            "reason": settlement.reason,
            "error": settlement.error,
            "duration_ms": settlement.duration_ms,
        }
        if running.error is None or isinstance(running.error, Signal):
            write(message, **known)
            return
        try:
            write(message, **known, exc_info=running.error)
        except BaseException:  # an application's own log may stumble over an exception that cannot be shown
            write(message, **known)


def _after_stop(verdict: Verdict | None, cause: StopCause) -> Verdict | None:
    """What a handler's answer is worth that came after it was told to stop; None if it is worth nothing."""
    if verdict is None or cause in (StopCause.TIMEOUT, StopCause.LOST):
        return None
    return verdict if verdict.transition is Transition.COMPLETE and verdict.is_explicit else None


def _is_closed_from_outside(running: Running, error: BaseException) -> bool:
    """Whether the coroutine is being thrown away with its loop, and not its handler that raised a GeneratorExit."""
    if not isinstance(error, GeneratorExit):
        return False
    try:
        return asyncio.current_task() not in (running.job, running.left_behind)
    except RuntimeError:  # no loop runs here any more
        return True


def _ignore(task: Task, transition: Transition, landed: bool) -> None:
    """Nobody wants to know."""


def _nothing() -> None:
    """Nobody wants to know."""
