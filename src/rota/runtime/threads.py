"""Threads for handlers that are not async: started when needed, used again, never waited for at exit.

`concurrent.futures` joins its threads when the interpreter ends, so one handler that hangs would keep the process
alive; and its pool has a fixed size, so a few of them would take all of it. These are daemons, and there are as many
as there are runs; a hanging one costs itself and nothing else.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["Threads"]

_Job = Callable[[], None]
_Outcome = tuple[object, BaseException | None]
"""What a function returned, or what it raised. It is handed over as a value: an exception that a future throws into the
coroutines that await it ends them all by itself if it is a GeneratorExit."""


def _nobody(thread: int) -> None:
    """Nobody wants to know."""


class Threads:
    """A set of daemon threads that belongs to one worker."""

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[_Job | None]] = []
        self._lock = threading.Lock()
        self._closed = False

    async def run(self, function: Callable[[], object], on_thread: Callable[[int], None] = _nobody) -> object:
        """The function's result, computed in a thread; `on_thread` is told which. Cancelling the caller leaves the
        thread to itself."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Outcome] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            on_thread(threading.get_ident())
            outcome = _outcome(lambda: context.run(function))
            try:
                loop.call_soon_threadsafe(_answer, future, outcome)
            except RuntimeError:
                # The loop has ended: nobody is waiting any more.
                return

        self._submit(job)
        answer, error = await future
        if isinstance(error, StopIteration):
            # A coroutine cannot raise this one: Python would say that the coroutine is at fault.
            raise RuntimeError("The handler raised StopIteration.") from error
        if error is not None:
            raise error
        return answer

    def close(self) -> None:
        """Let the idle threads end; the busy ones end with their job. Another `run` opens it again."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for queue in idle:
            queue.put(None)

    def _submit(self, job: _Job) -> None:
        with self._lock:
            self._closed = False
            queue = self._idle.pop() if self._idle else None
        if queue is None:
            queue = SimpleQueue[_Job | None]()
            threading.Thread(target=self._work, args=(queue,), name="rota-handler", daemon=True).start()
        queue.put(job)

    def _work(self, queue: SimpleQueue[_Job | None]) -> None:
        while (job := queue.get()) is not None:
            job()
            # What it closes over (a payload, a result) must not live on in an idle thread.
            del job
            with self._lock:
                if self._closed:
                    return
                self._idle.append(queue)


def _outcome(function: Callable[[], object]) -> _Outcome:
    try:
        return function(), None
    except BaseException as error:  # SystemExit in a thread must reach the run, not end the thread in silence
        return None, error


def _answer(future: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
