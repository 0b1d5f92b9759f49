"""A worker: one instance at work. It owns every loop of the runtime, in one task group, from start to end."""

from __future__ import annotations

import asyncio
import math
import os
import random
import socket
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rota.call_timeout import seconds_of
from rota.clock import DAY, SECOND, Clock, Millis
from rota.core.task import Transition
from rota.core.task_type import TaskType, did_you_mean
from rota.errors import InvalidConfig, RotaError
from rota.logs import get_logger
from rota.runtime import capture
from rota.runtime.dispatcher import BlockedTypes, Dispatcher, Slots
from rota.runtime.duty import Duty, DutyContext, MakeDuties, with_timeout
from rota.runtime.executor import Executor
from rota.runtime.handler import Handler
from rota.runtime.health import Health, Pulse
from rota.runtime.heartbeat import Heartbeat
from rota.runtime.listener import Listener
from rota.runtime.live_details import LiveDetails
from rota.runtime.observer import Guarded, Observer
from rota.runtime.pruner import Pruner
from rota.runtime.pump import Pump
from rota.runtime.reconciler import Reconcilable, Reconciler
from rota.runtime.recorder import Recorder
from rota.runtime.running import Running
from rota.runtime.stats import InstanceStats
from rota.runtime.sweeper import Sweeper
from rota.runtime.thread_duty import ThreadDuty
from rota.runtime.verdict import StopCause
from rota.stores.base import Beat, Store, Tick

__all__ = ["Worker", "WorkerSettings"]

_THERE_SECONDS: Final = 1.0
_AWAY_SECONDS: Final = 0.2
"""What is left for last words after the grace: a store that is there needs milliseconds, one that is away gets none."""

_Tasks = list[asyncio.Task[None]]

log = get_logger("rota.worker")


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How an instance works. `grace_ms` is what a handler has to clean up in, once it was told to stop."""

    lease_ms: Millis = 10 * SECOND
    sweep_ms: Millis = SECOND
    check_interval_ms: Millis = 10 * SECOND
    max_concurrent: int = 5
    run_ttl_ms: Millis = 30 * DAY
    call_timeout: float = field(default_factory=lambda: seconds_of(None))
    abandoned_limit: int = 10
    grace_ms: Millis = 5 * SECOND


class Worker:
    """Claims, runs and settles tasks of the types that it has handlers for. The store is open, and stays open.

    What `duties` make runs beside its own duties for as long as it works, and counts in its health. They are ended when
    the last run is settled.
    """

    def __init__(
        self,
        store: Store,
        handlers: Mapping[str, Handler],
        types: Mapping[str, TaskType],
        settings: WorkerSettings | None = None,
        *,
        clock: Clock,
        chance: Callable[[], float] = random.random,
        instance: str | None = None,
        stats: InstanceStats | None = None,
        observers: Sequence[Observer] = (),
        blocked_types: BlockedTypes | None = None,
        duties: MakeDuties | None = None,
    ) -> None:
        _check(handlers, types)
        settings = settings or WorkerSettings()
        self._types = types
        self._handlers = handlers = dict(handlers)
        self.instance = instance or uuid.uuid4().hex
        self._store = store
        self._settings = settings
        self._clock = clock
        self._started_at = clock.now()
        self._pulse = pulse = Pulse(clock)
        context = DutyContext(store, self.instance, clock, pulse, chance, settings.call_timeout)
        self._stats = stats = stats or InstanceStats()
        self._observers: tuple[Observer, ...] = (stats, *map(Guarded, observers))
        self._executor = Executor(
            store,
            handlers,
            types,
            clock=clock,
            chance=chance,
            pulse=pulse,
            lease_ms=settings.lease_ms,
            grace=settings.grace_ms / SECOND,
            observers=self._observers,
        )
        self._heartbeat = Heartbeat(context, self._executor, lease_ms=settings.lease_ms)
        slots = Slots(settings.max_concurrent, settings.abandoned_limit, settings.lease_ms, settings.check_interval_ms)
        self._dispatcher = dispatcher = Dispatcher(
            context, self._executor, handlers, types, slots=slots, blocked_types=blocked_types
        )
        self._sweeper = Sweeper(context, self._beat, self._ticked, sweep_ms=settings.sweep_ms)
        self._recorder = Recorder(context, stats)
        self._pump = Pump(context, types.values())
        self._own: list[Duty[Any]] = [
            Listener(context, dispatcher.poke),
            Pruner(context, run_ttl_ms=settings.run_ttl_ms),
            self._recorder,
            self._pump,
            LiveDetails(context, self._executor.running),
        ]
        if isinstance(store, Reconcilable):
            self._own.append(Reconciler(store, clock=clock, pulse=pulse, chance=chance))
        self._added = () if duties is None else tuple(duties(context))
        _check_names([dispatcher, self._heartbeat, self._sweeper, *self._own, *self._added])
        self._executor.on_settled = self._on_settled
        self._executor.stopping.on_free = dispatcher.poke
        self._stop_asked = asyncio.Event()
        self._done: asyncio.Event | None = None
        self._wake_idler = asyncio.Event()
        self._deadlines: list[asyncio.TimerHandle] = []
        self._end_by: float | None = None
        """When whoever stops it waits no longer, by the loop's clock; None if nobody does."""

    # --- the worker's life ---

    @property
    def is_running(self) -> bool:
        """Whether it is at work, or about to end."""
        return self._done is not None and not self._done.is_set()

    async def run(self) -> None:
        """Work until stopped or cancelled. A worker that was stopped, even before it started, stays stopped."""
        self._begin()
        try:
            if not self._stop_asked.is_set():
                await self._work()
        finally:
            await self._end()

    async def stop(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109  # it bounds the runs, not this call
        """No new claims; running work may finish for `timeout` seconds, then it is cancelled and released.

        Bounded by the timeout and the grace. A store that is away is not waited for any longer: the leases of what it
        did not hear of run out. Stopping again is harmless, and may shorten the wait.
        """
        self._stop_asked.set()
        self._dispatcher.stop()
        if self._done is None or self._done.is_set():
            return
        self._hurry(timeout)
        await self._done.wait()

    async def run_until_idle(self) -> int:
        """Work off everything that is due now, follow-ups and due retries included; how many runs that were."""
        self._begin()
        before = self._executor.runs_total
        try:
            self._heartbeat.start()
            await self._drain_due()
        except asyncio.CancelledError:
            self._hurry(0)
            await self._executor.drain()
            raise
        finally:
            await self._end()
        return self._executor.runs_total - before

    def health(self) -> Health:
        """Whether it can do its work now: every loop in time, the store within reach, not too much left behind."""
        reasons = self._pulse.reasons() if self.is_running else ["The worker is not running."]
        abandoned = len(self._executor.stopping.abandoned)
        if abandoned >= self._settings.abandoned_limit:
            reasons.append(
                f"{abandoned} handlers were abandoned and still run; {self._settings.abandoned_limit} is the limit."
                " Sync handlers are not started any more. Restart the process."
            )
        return Health(
            ok=not reasons,
            reasons=tuple(reasons),
            running=len(self._executor.running),
            abandoned=abandoned,
            seconds_since_good=self._pulse.seconds_since_good(),
        )

    def serve(self, handlers: Mapping[str, Handler]) -> None:
        """These handlers, too, from now on; the store is told of a type that it does not know."""
        _check(handlers, self._types)
        self._handlers.update(handlers)
        self._dispatcher.take_on()
        self._pump.follow(self._types.values())

    def poke(self) -> None:
        """Something was asked of a running task: the next answer to a renewal is fetched now. Any thread."""
        self._heartbeat.poke()

    # --- at work ---

    def _begin(self) -> None:
        if self.is_running:
            raise RotaError("This worker is already running. Stop it first, or make another one.")
        self._done = asyncio.Event()
        capture.listen()

    async def _work(self) -> None:
        self._expect_loops()
        self._heartbeat.start()
        self._sweeper.start()
        loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
        log.info("worker started", instance=self.instance, types=self._dispatcher.names, loop=loop)
        async with asyncio.TaskGroup() as group:
            claiming = group.create_task(self._dispatcher.run(), name="rota-dispatcher")
            own, added = _start(group, self._own), _start(group, self._added)
            try:
                await self._stop_asked.wait()
            except asyncio.CancelledError:
                self._hurry(0)
                await self._wind_down(claiming, own, added)
                raise
            await self._wind_down(claiming, own, added)

    async def _wind_down(self, claiming: asyncio.Task[None], own: _Tasks, added: _Tasks) -> None:
        """No new claims, then wait. Leases are renewed and the sweeper beats until the last run is settled."""
        self._dispatcher.stop()
        await asyncio.wait([claiming])
        await self._executor.drain()
        if added:
            await self._end_added(added)
        for task in own:
            task.cancel()

    async def _end_added(self, tasks: _Tasks) -> None:
        """The duties that were added may end the pass that they are in, and say their last words, within the grace."""
        for duty in self._added:
            duty.stop()
        await asyncio.wait(tasks, timeout=self._grace_left())
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=self._last_words())
        await asyncio.gather(*(self._close(duty) for duty in self._added))

    async def _close(self, duty: Duty[Any]) -> None:
        try:
            async with asyncio.timeout(self._grace_left() + self._last_words()):
                await duty.close()
        except Exception as error:
            log.warning("duty not closed", duty=duty.name, error=str(error) or "it took too long")

    def _grace_left(self) -> float:
        """Seconds: never more than the grace, and none once whoever stops it waits no longer."""
        left = math.inf if self._end_by is None else self._end_by - asyncio.get_running_loop().time()
        return min(max(left, 0.0), self._executor.stopping.grace)

    def _hurry(self, timeout: float) -> None:
        """Cancel what still runs after the timeout, and leave what cannot even be released soon after."""
        loop = asyncio.get_running_loop()
        end_by = loop.time() + timeout + self._executor.stopping.grace
        self._end_by = end_by if self._end_by is None else min(end_by, self._end_by)
        self._deadlines.append(loop.call_later(timeout, self._executor.stop_all, StopCause.SHUTDOWN))
        self._deadlines.append(loop.call_at(end_by, self._give_up))

    def _give_up(self) -> None:
        """The grace is over: one last try for what is not settled, and then none."""
        self._executor.give_up()
        self._deadlines.append(asyncio.get_running_loop().call_later(self._last_words(), self._executor.give_up))

    def _last_words(self) -> float:
        """For how many seconds the store is waited for when the grace is over."""
        return _AWAY_SECONDS if self._pulse.reasons() else _THERE_SECONDS

    async def _end(self) -> None:
        assert self._done is not None
        try:
            # A store carries out what is under way, cancelled or not: a beat after the goodbye would list us again.
            async with asyncio.timeout_at(self._goodbye_by()):
                # Both are told at once: neither may go on because the other one's pass takes too long.
                await asyncio.gather(self._heartbeat.stop(), self._sweeper.stop())
                await self._farewell()
        except TimeoutError:
            log.warning("goodbye not heard", instance=self.instance, error="the store did not answer in time")
        finally:
            for deadline in self._deadlines:
                deadline.cancel()
            capture.stop_listening()
            self._executor.close()
            self._done.set()

    async def _farewell(self) -> None:
        """Give back what was claimed and never begun, and be listed no longer. The store may be away: then it reaps."""
        try:
            await self._dispatcher.give_back()
            await with_timeout(self._settings.call_timeout, "leave", self._store.leave(self.instance))
            await self._recorder.run_once()
        except Exception as error:
            log.warning("goodbye not heard", instance=self.instance, error=str(error))

    def _goodbye_by(self) -> float | None:
        """Nobody waits longer for a goodbye than for the runs; without a deadline each call has its own."""
        if self._end_by is None:
            return None
        now = asyncio.get_running_loop().time()
        return min(max(self._end_by, now), now + self._settings.call_timeout) + self._last_words()

    async def _drain_due(self) -> None:
        await self._sweeper.pass_once()
        while True:
            self._wake_idler.clear()
            report = await self._dispatcher.run_once()
            if self._executor.running:
                await self._wake_idler.wait()
            elif report.claimed or self._wake_idler.is_set():
                continue  # a run that ended during the last look may have let another one in
            elif not await self._catch_up():
                return

    async def _catch_up(self) -> bool:
        """Whether the pump or the sweeper found more to do."""
        handed = await self._pump.run_once()
        swept = await self._sweeper.pass_once()
        return bool(handed or swept.reaped)

    def _on_settled(self, ended: Sequence[Running]) -> None:
        followed = self._pump.followed
        if followed and any(running.task.task_type in followed and _is_done(running) for running in ended):
            self._pump.wake()
        self._dispatcher.freed({running.task.task_type for running in ended})
        self._wake_idler.set()

    def _ticked(self, tick: Tick) -> None:
        """Pass on what the sweeper has found."""
        for task in tick.reaped:
            for observer in self._observers:
                observer.reaped(task, tick.now)
        self._dispatcher.expect(tick.next_due_at)
        self._recorder.ticked(tick.now)

    # --- signs of life ---

    def _beat(self) -> Beat:
        return Beat(
            instance=self.instance,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=self._started_at,
            types=self._dispatcher.names,
            running=len(self._executor.running),
            lease_ms=self._settings.lease_ms,
        )

    def _expect_loops(self) -> None:
        for duty in (self._dispatcher, self._sweeper, self._heartbeat, *self._own, *self._added):
            if duty.patience is not None:
                self._pulse.expect(duty.name, duty.patience)


def _is_done(running: Running) -> bool:
    verdict = running.verdict
    return running.landed and verdict is not None and verdict.transition is Transition.COMPLETE


def _start(group: asyncio.TaskGroup, duties: Sequence[Duty[Any]]) -> _Tasks:
    return [group.create_task(duty.run(), name=f"rota-{duty.name}") for duty in duties]


def _check_names(duties: Sequence[Duty[Any] | ThreadDuty[Any]]) -> None:
    """The health tells duties by their names."""
    twice = [name for name, count in Counter(duty.name for duty in duties).items() if count > 1]
    if twice:
        raise InvalidConfig(f"Two duties are called {twice[0]!r}. Give the one that was added another name.")


def _check(handlers: Mapping[str, Handler], types: Mapping[str, TaskType]) -> None:
    for name in handlers:
        if name not in types:
            raise InvalidConfig(f"There is a handler for {name!r}, but no such task type. {did_you_mean(name, types)}")
