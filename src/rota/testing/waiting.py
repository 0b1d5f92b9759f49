"""Waiting in tests: for a condition, never for a time.

A test that sleeps is slow where the machine is fast and fails where it is busy. What happens elsewhere (on another
thread, in another process, in a store) has no event here: it is looked at again and again until it holds.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Final, cast

__all__ = ["until", "until_blocking"]

PATIENCE: Final = 60.0
"""Seconds after which something is taken to be stuck; what works never takes them."""
_PAUSE: Final = 0.01


async def until(condition: Callable[[], object], what: str = "it holds", *, seconds: float = PATIENCE) -> None:
    """Wait until a condition, a function that may be async, holds. `what` completes the message if it never does."""
    try:
        async with asyncio.timeout(seconds):
            while not await _answer(condition):  # noqa: ASYNC110 - nobody signals what is looked at here
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        raise AssertionError(_never(what, seconds)) from None


def until_blocking(condition: Callable[[], object], what: str = "it holds", *, seconds: float = PATIENCE) -> None:
    """The same where there is no event loop."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, _never(what, seconds)
        time.sleep(_PAUSE)


async def _answer(condition: Callable[[], object]) -> object:
    answer = condition()
    return cast("object", await answer) if inspect.isawaitable(answer) else answer


def _never(what: str, seconds: float) -> str:
    return f"{seconds:g} s were not enough until {what}."
