"""Between the threads and the event loop: calls on the loop, work aside from it, and the end of a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from rota.logs import get_logger

__all__ = ["CLOSE_SECONDS", "aside", "joined", "resolve", "tell"]

log = get_logger("rota.events")

Made = TypeVar("Made")

CLOSE_SECONDS: Final = 6.0
"""How long closing may take: in the midst of a rebalance the driver gives up to leave after five seconds."""


def tell(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> None:
    """Call it on the loop, if there still is one: a process may end while a thread works."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)


async def aside(name: str, work: Callable[[], Made]) -> Made:
    """What the work gives that blocks, done on a thread of its own."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Made] = loop.create_future()

    def run() -> None:
        try:
            tell(loop, resolve, done, work())
        except Exception as error:
            tell(loop, _reject, done, error)

    thread = threading.Thread(target=run, name=f"rota-kafka-{name}", daemon=True)
    thread.start()
    await asyncio.wait([done])
    thread.join()  # it has nothing left to do
    return done.result()


def resolve(future: asyncio.Future[Any], value: object = None) -> None:
    if not future.done():
        future.set_result(value)


def _reject(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


async def joined(thread: threading.Thread, ended: asyncio.Event) -> None:
    """Wait until a thread has ended, but not for ever."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await ended.wait()
    except TimeoutError:
        log.warning("kafka.close_is_slow", thread=thread.name)
    else:
        thread.join()  # it has nothing left to do
