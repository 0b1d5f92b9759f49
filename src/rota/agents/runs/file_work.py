"""Work on files for many runs at a time.

A disk may keep whoever makes or removes a file waiting, most of all while a database beside it syncs its own. So
nothing of it is done on the event loop; and what is asked for while a thread is at work is done in its next turn,
together: a thousand runs cost a few dozen turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

__all__ = ["FileWork"]

T = TypeVar("T")


class _Asked(NamedTuple):
    function: Callable[[], Any]
    future: asyncio.Future[Any]


class FileWork:
    """One thread's worth of work on files, in the order in which it is asked for."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[_Asked] = []
        self._turns: asyncio.Task[None] | None = None

    def begin(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Have a function called on the thread. It is called also if nobody waits for its answer any more."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # What was asked for on a loop that is gone has nobody left who waits for it.
            self._loop, self._waiting, self._turns = loop, [], None
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append(_Asked(function, future))
        if self._turns is None:
            self._turns = loop.create_task(self._take_turns())
        return future

    async def _take_turns(self) -> None:
        try:
            while asked := self._waiting:
                self._waiting = []
                answers = await asyncio.to_thread(_call_each, asked)
                for (_, future), answer in zip(asked, answers, strict=True):
                    if future.done():
                        continue
                    if isinstance(answer, BaseException):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)
        finally:
            self._turns = None


def _call_each(asked: list[_Asked]) -> list[Any]:
    return [_answer_of(function) for function, _ in asked]


def _answer_of(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return error
