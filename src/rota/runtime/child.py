"""The child's side of a handler that runs in a process of its own (`process.py`).

Its answers go to the standard output it was started with. The handler's own prints go to the standard error instead,
so that nothing it writes can be taken for an answer.

It does not outlive its worker: a killed worker's task is taken over, and would be worked on twice. The call comes
through the standard input, which stays open for as long as the worker lives; a thread waits for its end and then kills
the whole group, with whatever the handler has started. A handler may never let another thread run (native code that
holds the interpreter's lock), so on Linux the kernel itself does the same. Asking it for a signal at the parent's death
(PR_SET_PDEATHSIG) would not do: that one is for this process alone, which would be gone before it has ended its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import importlib
import os
import runpy
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import BinaryIO, cast

import msgspec
from msgspec.structs import replace

from rota.clock import Millis, SystemClock
from rota.codec import warmed
from rota.core.run_details import Line, Step
from rota.runtime import capture
from rota.runtime.capture import LineBuffer
from rota.runtime.details import MAX_LINE, as_kept
from rota.runtime.handler import Handler, HandlerFunction, is_async, make_handler
from rota.runtime.process import ChildCall, ChildMessage, FunctionLocation
from rota.runtime.raised import raised_by
from rota.runtime.run import Run
from rota.runtime.signals import Signal
from rota.runtime.verdict import of_error, of_value

__all__ = ["main"]

Say = Callable[[ChildMessage], None]

_decode_call = warmed(msgspec.json.Decoder(ChildCall)).decode  # it reads one, before there is another thread


def main() -> None:
    """Read one call, carry it out, say how it ended."""
    say = _speaker(_channel())
    lifeline = _lifeline()
    call = _decode_call(_line(lifeline))
    _have_the_kernel_watch(lifeline)
    threading.Thread(target=_hold_on, args=(lifeline,), name="rota-lifeline", daemon=True).start()
    sys.path[:] = call.sys_path
    say(_carry_out(call, say))


def _lifeline() -> int:
    """The standard input under another number: whatever the handler does with its own finds nothing there."""
    lifeline = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return lifeline


def _line(lifeline: int) -> bytes:
    """The call; nothing comes after it. Read without a buffer, which a waiting thread would hold at the end."""
    parts: list[bytes] = []
    while not parts or not parts[-1].endswith(b"\n"):
        part = os.read(lifeline, 65_536)
        if not part:
            sys.exit("The worker was gone before it had said what to do.")
        parts.append(part)
    return b"".join(parts)


def _have_the_kernel_watch(lifeline: int) -> None:
    """SIGKILL for the whole group as soon as something happens to the lifeline, and only its end ever does."""
    if sys.platform == "linux" and os.getpgrp() == os.getpid():
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _hold_on(lifeline: int) -> None:
    """Until the worker is gone."""
    with contextlib.suppress(OSError):
        os.read(lifeline, 1)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _channel() -> BinaryIO:
    channel = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return cast("BinaryIO", channel)


def _speaker(channel: BinaryIO) -> Say:
    lock = threading.Lock()

    def say(message: ChildMessage) -> None:
        with lock:
            channel.write(msgspec.json.encode(message) + b"\n")

    return say


def _carry_out(call: ChildCall, say: Say) -> ChildMessage:
    told = ToldRun(say)
    capture.from_info_on()
    capture.listen()
    capture.entered(told)
    try:
        function = _find(call.location)
        handler = make_handler(call.task.task_type, function, positional=call.positional)
        run = Run(call.task, call.timeout_ms, told.report, told.step)
        return ChildMessage(verdict=of_value(_call(handler, call, run)))
    except BaseException as error:  # the process ends either way; the verdict tells more than its exit code
        why = (error.__cause__ or error.__context__) if isinstance(error, Signal) else error
        return ChildMessage(verdict=of_error(error), raised=None if why is None else raised_by(why))
    finally:
        told.say_the_rest()


class ToldRun:
    """What the handler leaves, told to the worker as it comes: a child may die at any moment."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._clock = SystemClock()
        self._started = self._clock.monotonic()
        self._steps = 0
        self._written: dict[str, LineBuffer] = {}

    def report(self, progress: str) -> None:
        self._say(ChildMessage(progress=progress))

    def keep_line(self, text: str, level: str, logger: str = "") -> None:
        self._say(ChildMessage(line=Line(self._at(), as_kept(text, MAX_LINE), level, logger[:100])))

    def keep_print(self, text: str, level: str) -> None:
        for line in self._written.setdefault(level, LineBuffer()).add(text):
            self.keep_line(line, level)

    def say_the_rest(self) -> None:
        """What was printed without a line end."""
        for level in self._written:
            self.keep_print("\n", level)

    @contextlib.contextmanager
    def step(self, name: str) -> Generator[None]:
        begun, place = Step(as_kept(name, 100), self._at()), self._steps
        self._steps += 1
        self._say(ChildMessage(step=begun, step_at=place))
        error: str | None = None
        try:
            yield
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            self._say(ChildMessage(step=replace(begun, to_ms=self._at(), error=error), step_at=place))

    def _at(self) -> Millis:
        return max(0, round((self._clock.monotonic() - self._started) * 1_000))


def _call(handler: Handler, call: ChildCall, run: Run) -> object:
    answer = handler.call(call.task, run)
    return asyncio.run(_awaited(answer)) if is_async(handler.function) else answer


async def _awaited(answer: object) -> object:
    return await cast("Awaitable[object]", answer)


def _find(location: FunctionLocation) -> HandlerFunction:
    if location.module is not None:
        found: object = functools.reduce(
            getattr, location.qualname.split("."), importlib.import_module(location.module)
        )
    else:
        assert location.path is not None, "a function without a module stands in a file"
        names = runpy.run_path(location.path, run_name="__rota_child__")
        first, *rest = location.qualname.split(".")
        found = functools.reduce(getattr, rest, names[first])
    return cast("HandlerFunction", found)


if __name__ == "__main__":
    main()
