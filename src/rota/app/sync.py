"""`app.sync`: Rota for code without an event loop: scripts, threads, frameworks that are not async.

    app.sync.touch("memory_compression", "u1", "phone")

If the app is connected in an event loop of another thread, calls are handed to it. Otherwise the first call starts a
thread with a loop of its own and connects there; `close` ends both. In a process that was forked (prefork servers) the
first call does so again: the thread and the connection are the parent's.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, cast
from weakref import WeakSet

from rota.app.results import Receipt, Touch
from rota.clock import SECOND
from rota.errors import RotaError
from rota.forking import forget_in_children, keep_for_ever

if TYPE_CHECKING:
    from rota.app.rota import Rota, ScheduleOptions
    from rota.batches.sync import SyncBatches

__all__ = ["SyncRota", "SyncTask"]

T = TypeVar("T")


class SyncRota:
    """The calls of an app, blocking. Any thread may use it, except one in which an event loop runs."""

    def __init__(self, app: Rota) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._thread: _LoopThread | None = None
        forget_in_children(self)

    def touch(self, task_type: str, user_id: str, device_id: str | None = None, agent_id: str | None = None) -> Touch:
        """A user was active: what that led to."""
        return self.wait(self._app.touch(task_type, user_id, device_id, agent_id))

    def schedule_user_task(
        self, task_type: str, user_id: str, device_id: str | None = None, agent_id: str | None = None
    ) -> bool:
        """A user was active; True if that made a task."""
        return self.wait(self._app.schedule_user_task(task_type, user_id, device_id, agent_id))

    def schedule(self, task_type: str, payload: object = None, **options: Unpack[ScheduleOptions]) -> Receipt:
        """Make a task of a type, now, `at` a time or after a `delay`."""
        return self.wait(self._app.schedule(task_type, payload, **options))

    @property
    def batches(self) -> SyncBatches:
        """Batches of items: asked for, made wherever a worker runs, and gone through as they come."""
        from rota.batches.sync import SyncBatches

        return SyncBatches(self._app.batches, self)

    def run_until_idle(self) -> int:
        """Work off everything that is due; how many runs that were."""
        return self.wait(self._app.run_until_idle())

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait for any other call of the app: `app.sync.wait(app.schedules.list())`."""
        try:
            _refuse_inside_a_loop()
            loop = self._loop()
        except BaseException:
            call.close()
            raise
        future = asyncio.run_coroutine_threadsafe(call, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # does nothing to what has failed by itself; ends what Ctrl-C has interrupted
            raise

    def close(self) -> None:
        """Disconnect and end the thread. Closing twice is harmless; the next call connects again."""
        _refuse_inside_a_loop()
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.wait(self._app.__aexit__(None, None, None))
            thread.end()

    def forget(self) -> None:
        """Have no thread: whoever has moved the app keeps the one that there was."""
        self._lock, self._thread = threading.Lock(), None

    def forget_parent(self) -> None:
        """In a forked child: the thread was not forked with us, and whoever held the lock is not here to let go."""
        keep_for_ever(self._thread)
        self.forget()

    def __enter__(self) -> SyncRota:
        self.wait(_nothing())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _loop(self) -> asyncio.AbstractEventLoop:
        """Where the app is connected: in somebody's loop, or in our own, which is started if need be."""
        with self._lock:
            if self._thread is not None:
                return self._thread.loop
            theirs = self._app.host.connection.loop
            if theirs is not None and theirs.is_running():
                return theirs
            thread = _LoopThread()
            try:
                thread.wait(self._app.__aenter__())
            except BaseException:
                thread.end()
                raise
            self._thread = thread
            _IN_USE.add(self)
            return thread.loop

    def hand_over(self) -> None:
        """The process ends, and nobody has closed this: give the store what waits in the spool, or say that it waits
        on. Nothing else is waited for, and that no longer than for a call."""
        thread = self._thread
        if thread is not None and self._app.health().spooled:
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(self._app.host.hand_over(), thread.loop).result(
                    self._app.config.call_timeout_ms / SECOND
                )


class SyncTask:
    """The calls of one task type, blocking."""

    def __init__(self, name: str, sync: SyncRota) -> None:
        self._name = name
        self._sync = sync

    def touch(self, user_id: str, device_id: str | None = None, agent_id: str | None = None) -> Touch:
        """A user was active: what that led to."""
        return self._sync.touch(self._name, user_id, device_id, agent_id)

    def schedule(self, payload: object = None, **options: Unpack[ScheduleOptions]) -> Receipt:
        """Make a task of this type, now, `at` a time or after a `delay`."""
        return self._sync.schedule(self._name, payload, **options)


class _LoopThread:
    """A thread with an event loop. A daemon: a program that forgets to close it can still end."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rota-sync", daemon=True)
        self._thread.start()

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self.loop).result()

    def end(self) -> None:
        self.wait(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


async def _nothing() -> None:
    """A call that only needs the connection."""


def _refuse_inside_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RotaError(
        "`app.sync` was called in a thread whose event loop is running, and would block it for ever."
        " Await the call instead: `await app.touch(...)`, `await task.schedule(...)`."
    )


# --- at the end of the process --------------------------------------------------------------------------------------

_IN_USE: Final[WeakSet[SyncRota]] = WeakSet()
"""Who has, or had, a thread."""


def _hand_over_all() -> None:
    for sync in list(_IN_USE):
        sync.hand_over()


def _before_threads_end(call: Callable[[], None]) -> None:
    """`atexit` is too late: by then no pool of threads takes anything any more, and there is no store without one.

    What the pools themselves use for that has no public name. Without it the spool says what is left, and that is all.
    """
    register = cast("Callable[[Callable[[], None]], None] | None", getattr(threading, "_register_atexit", None))
    if register is not None:
        register(call)


_before_threads_end(_hand_over_all)
