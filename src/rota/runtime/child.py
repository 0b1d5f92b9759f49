"""The child's side of a handler that runs in a process of its own (`process.py`).

Its answers go to the standard output it was started with. The handler's own prints go to the standard error instead,
so that nothing it writes can be taken for an answer.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import runpy
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import BinaryIO, cast

import msgspec

from rota.codec import warmed
from rota.runtime.handler import Handler, HandlerFunction, is_async, make_handler
from rota.runtime.process import Line, Order, Place
from rota.runtime.run import Run
from rota.runtime.verdict import Verdict, of_error, of_value

__all__ = ["main"]

Say = Callable[[Line], None]

_decode_order = warmed(msgspec.json.Decoder(Order)).decode  # it reads one, before there is another thread


def main() -> None:
    """Read one order, carry it out, say how it ended."""
    say = _speaker(_channel())
    order = _decode_order(sys.stdin.buffer.read())
    sys.path[:] = order.sys_path
    say(Line(verdict=_carry_out(order, say)))


def _channel() -> BinaryIO:
    channel = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return cast("BinaryIO", channel)


def _speaker(channel: BinaryIO) -> Say:
    lock = threading.Lock()

    def say(line: Line) -> None:
        with lock:
            channel.write(msgspec.json.encode(line) + b"\n")

    return say


def _carry_out(order: Order, say: Say) -> Verdict:
    try:
        function = _find(order.place)
        handler = make_handler(order.task.task_type, function, positional=order.positional)
        run = Run(order.task, order.timeout_ms, report=lambda progress: say(Line(progress=progress)))
        return of_value(_call(handler, order, run))
    except BaseException as error:  # the process ends either way; the verdict tells more than its exit code
        return of_error(error)


def _call(handler: Handler, order: Order, run: Run) -> object:
    answer = handler.call(order.task, run)
    return asyncio.run(_awaited(answer)) if is_async(handler.function) else answer


async def _awaited(answer: object) -> object:
    return await cast("Awaitable[object]", answer)


def _find(place: Place) -> HandlerFunction:
    if place.module is not None:
        found: object = functools.reduce(getattr, place.qualname.split("."), importlib.import_module(place.module))
    else:
        assert place.path is not None, "a function without a module stands in a file"
        names = runpy.run_path(place.path, run_name="__rota_child__")
        first, *rest = place.qualname.split(".")
        found = functools.reduce(getattr, rest, names[first])
    return cast("HandlerFunction", found)


if __name__ == "__main__":
    main()
