"""A handler in a process of its own: it can be killed, and what it breaks is its own.

The child (`child.py`) is told in one line of JSON which function to call and for which task; it answers in JSON lines,
progress first and the verdict last. Nothing is pickled. It leads its own session, so that what it starts is killed
with it. Its standard input stays open as a lifeline: a worker that is killed closes it by dying, and the child ends
itself before somebody else begins the same work.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Protocol

import msgspec

from rota.clock import Millis
from rota.codec import warmed
from rota.core.run_details import Line, Step
from rota.core.task import Task, Transition
from rota.runtime.handler import Handler, HandlerFunction
from rota.runtime.raised import Raised
from rota.runtime.verdict import Verdict

__all__ = ["ChildCall", "ChildMessage", "FunctionLocation", "run_in_process"]

TERMINATE_GRACE = 1.0
"""Seconds between asking a process to end and ending it."""
_LINE_LIMIT = 256 * 1024
_COMMAND = (sys.executable, "-m", "rota.runtime.child")


class FunctionLocation(msgspec.Struct, frozen=True):
    """Where a function is found: by module, or by file if it stands in the program's main module."""

    qualname: str
    module: str | None = None
    path: str | None = None


class ChildCall(msgspec.Struct, frozen=True):
    """Everything that the child needs to know."""

    location: FunctionLocation
    task: Task
    timeout_ms: Millis
    positional: bool
    sys_path: tuple[str, ...]


class ChildMessage(msgspec.Struct, frozen=True):
    """One line of the child's answer: progress (JSON in a text), a line, a step; last the verdict, what was raised."""

    progress: str | None = None
    line: Line | None = None
    step: Step | None = None
    step_at: int = 0
    verdict: Verdict | None = None
    raised: Raised | None = None


_decode_message = warmed(
    msgspec.json.Decoder(ChildMessage), '{"line":{"at_ms":0,"text":""},"step":{"name":"","from_ms":0}}'
).decode


class Listener(Protocol):
    """Whoever hears what a child tells before its verdict."""

    raised: Raised | None

    def report_progress(self, progress: str) -> None: ...
    def keep_told_line(self, line: Line) -> None: ...
    def keep_told_step(self, place: int, step: Step) -> None: ...


async def run_in_process(handler: Handler, task: Task, timeout_ms: Millis, listener: Listener | None) -> Verdict:
    """The verdict of one run in a child process. Cancelling it kills the process and waits for its end."""
    call = ChildCall(location_of(handler.function), task, timeout_ms, handler.positional, tuple(sys.path))
    process = await asyncio.create_subprocess_exec(
        *_COMMAND,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LINE_LIMIT,
        start_new_session=True,
    )
    try:
        verdict = await _converse(process, msgspec.json.encode(call), listener)
        return verdict or _died(await process.wait())
    finally:
        await _end(process)


def location_of(function: HandlerFunction) -> FunctionLocation:
    """Where the child finds the function. The main module has no name that can be imported, but a file."""
    module: str = function.__module__
    qualname = str(getattr(function, "__qualname__", ""))
    if module != "__main__":
        return FunctionLocation(qualname, module=module)
    main = sys.modules["__main__"]
    if main.__spec__ is not None:
        return FunctionLocation(qualname, module=main.__spec__.name)
    return FunctionLocation(qualname, path=getattr(main, "__file__", None))


async def _converse(process: asyncio.subprocess.Process, call: bytes, listener: Listener | None) -> Verdict | None:
    """Send the call, listen to what is told; the verdict, or None if the child ended without one."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(call + b"\n")
        await process.stdin.drain()
    while text := await process.stdout.readline():
        message = _decode_message(text)
        if listener is not None:
            _tell(listener, message)
        if message.verdict is not None:
            return message.verdict
    return None


def _tell(listener: Listener, message: ChildMessage) -> None:
    if message.progress is not None:
        listener.report_progress(message.progress)
    if message.line is not None:
        listener.keep_told_line(message.line)
    if message.step is not None:
        listener.keep_told_step(message.step_at, message.step)
    if message.raised is not None:
        listener.raised = message.raised


def _died(code: int) -> Verdict:
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return Verdict(Transition.RETRY, "error", f"The handler's process {how} before it answered. See its output.")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Nothing of it is left afterwards: asked to end, then ended, then waited for."""
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TERMINATE_GRACE):
                await process.wait()
    # What the handler itself started belongs to its session, and outlives its leader unless it is ended too.
    _signal_group(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()
    await process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
