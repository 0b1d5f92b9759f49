"""Working until a signal comes: the first one lets what runs finish, the second one ends it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from rota.runtime import Worker

__all__ = ["run_until_signalled", "signals_go_to"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_Previous = Callable[[int, FrameType | None], object] | int | None


async def run_until_signalled(worker: Worker, timeout: float) -> None:  # noqa: ASYNC109 - for stopping, not the call
    """Run until stopped; the first signal asks for a graceful stop, the next one for an immediate one."""
    stopping: list[asyncio.Task[None]] = []

    def on_signal() -> None:
        stopping.append(asyncio.create_task(worker.stop(0.0 if stopping else timeout), name="rota-stop"))

    with signals_go_to(on_signal):
        try:
            await worker.run()
        finally:
            await asyncio.gather(*stopping)


@contextmanager
def signals_go_to(handler: Callable[[], None]) -> Generator[None]:
    """Only the main thread gets signals, and not every platform's loop can hand them on. What was set is put back."""
    loop = asyncio.get_running_loop()
    previous: dict[signal.Signals, _Previous] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                before = signal.getsignal(number)
                loop.add_signal_handler(number, handler)
                previous[number] = before
    except NotImplementedError:
        pass
    try:
        yield
    finally:
        for number, before in previous.items():
            loop.remove_signal_handler(number)
            signal.signal(number, before)
